// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// accounts are what a cgroup counts of a process, one bit each.
type accounts uint8

const (
	accountCPU accounts = 1 << iota
	accountMemory
	accountIO
	accountPressure
	accountOther // membership, number of processes
)

// leftIDs count the processes that have left each account, in the order of the bits; leftCounts are those counts.
//
//nolint:gochecknoglobals // constant
var leftIDs = [...]procstats.ID{
	procstats.TreeLeftCPU, procstats.TreeLeftMemory, procstats.TreeLeftIO, procstats.TreeLeftPressure,
}

type leftCounts [len(leftIDs)]int64

// outsiders finds the processes of a task that have left its cgroup, or were started elsewhere, and counts them.
//
// A member that leaves is missing in cgroup.procs, which costs nothing to see. Three things are looked at for the
// others:
//   - the children of the executor, which has adopted the task's orphans: after twice as long each time, see findRoots
//   - the children of each member that has run since they were last listed: see checkMembers
//   - the cgroups of one member after the other in the other hierarchies of v1, from which cgroup.procs says nothing
type outsiders struct {
	paths kernel.CgroupPaths // of the task's cgroup; nil until a process is placed
	turn  int                // of the members that are placed

	rootsAt, rootsPause time.Duration // when the executor's children were listed, and how long they are not listed again
	usedAtRoots         time.Duration // see used

	live int
	// left and joined are what this reader has counted, or an earlier one, which may be found again here: whichever is
	// more, because the counts must not be too high.
	left, leftHere     leftCounts
	joined, joinedHere int64
	cpu                time.Duration // used by processes between two samples that found them outside
	// usedEarlier is what processes had used when an earlier reader saw them; nil if none had joined.
	usedEarlier map[procstats.ProcessID]usedEarlier
	// first are those that were seen, at most maxOutsiders.
	first []procstats.ProcessID
}

const (
	rootsSoon    = 250 * time.Millisecond
	rootsEvery   = 10 * time.Second
	maxOutsiders = 16
	// mostUsed is of how many processes at most it is cheaper to ask for the CPU time than to list the executor's
	// children.
	mostUsed = 4
	// Of many members that have run, mostChecks and a checkedShare of all are checked in a sample, and each again after at
	// most longestPause samples.
	mostChecks   = 8
	checkedShare = 64
	longestPause = 128
)

// placement is what is known of a member's cgroups, and when it is checked again.
type placement struct {
	// outside says of what the task's cgroup has no account of the process now, left of what it had none at some time.
	outside, left accounts
	// outsideCPU is its CPU time when it was last found outside the cgroup that counts that; 0 if it is inside.
	outsideCPU time.Duration
	// checks counts how often it was checked, up to where the pause is longest; nextCheck is the refresh of the next time.
	checks    uint8
	nextCheck uint64
	// checkedCPU is the CPU time that it had when its children were last listed.
	checkedCPU time.Duration
	// foreign is set for a process that another program has put into the cgroup, and those it makes there. before and
	// childrenBefore are the CPU time that it had used, and its reaped children, when it was first seen.
	foreign                    bool
	before, childrenBefore     time.Duration
	minfltBefore, majfltBefore uint64
}

// checkSoon has a process checked at the next refresh.
func (p *placement) checkSoon() { p.checks, p.nextCheck = 0, 0 }

// leftCPU reports whether a process has left the cgroup that counts its CPU time, as this reader or an earlier one has
// seen.
func (o *outsiders) leftCPU() bool { return o.left[0] > 0 }

// found reports whether any process was ever found outside: most tasks have none, and nothing else to look through
// then.
func (o *outsiders) found() bool { return len(o.first) > 0 }

// tracked reports whether the task has a cgroup that its processes can leave, and can be known as the task's then.
func (m *membership) tracked() bool {
	return m.cgroup != nil && m.target.Parent != 0 && m.target.FS.Live
}

// findOutside marks the processes that are not in the cgroup, and everything below them, and notes which those are.
func (m *membership) findOutside() {
	o := &m.outside
	o.live = 0
	if !m.tracked() {
		return
	}
	if m.fromTree {
		for _, p := range m.procs {
			// One that came back is listed, unless its main thread has ended.
			if p.identified && (p.outside == 0 || p.leaderless) {
				m.place(p)
			}
		}
	} else {
		m.findUnlisted()
	}
	if !o.found() {
		return
	}
	for _, p := range m.procs {
		if p.outside != 0 && p.round == m.round && !p.dead {
			o.live++
		}
	}
}

// findUnlisted finds the processes that cgroup.procs does not list: first those to begin with, then what is below them.
func (m *membership) findUnlisted() {
	w := &m.tree
	w.queue = w.queue[:0]
	if m.missing() {
		for _, p := range m.procs {
			if p.round != m.round && !p.dead && m.stays(p) && p.outside != 0 {
				w.queue = append(w.queue, p)
			}
		}
	}
	m.findRoots()
	m.checkMembers()
	for i := 0; i < len(w.queue); i++ {
		m.place(w.queue[i])
		m.findChildren(w.queue[i])
	}
}

// findRoots lists the children of the executor, after twice as long each time. As long as nothing has run since the
// last time there are no others.
func (m *membership) findRoots() {
	o := &m.outside
	if m.target.Roots == nil || o.rootsAt != 0 && m.collected-o.rootsAt < o.rootsPause {
		return
	}
	o.rootsAt, o.rootsPause = m.collected, min(max(rootsSoon, 2*o.rootsPause), rootsEvery)
	used, ok := m.used()
	if ok && used == o.usedAtRoots {
		return
	}
	o.usedAtRoots = used
	for _, pid := range m.target.Roots() {
		m.find(pid, m.target.Parent)
	}
}

// used adds up the CPU time of the executor and of the members, if these are few: the sum is the same as long as none
// of them has run and none has ended. ok is false if one of them may have children that were not listed.
func (m *membership) used() (sum time.Duration, ok bool) {
	if m.outside.found() || len(m.procs) > mostUsed || m.missing() || !m.clocks {
		return 0, false
	}
	sum, err := kernel.ProcessCPU(m.target.Parent)
	if err != nil {
		return 0, false
	}
	for _, p := range m.procs {
		cpu, err := m.clock(p)
		if err != nil || p.dead || !p.identified || p.checks == 0 || cpu != p.checkedCPU {
			return 0, false
		}
		sum += cpu
	}
	return sum, true
}

// checkMembers places members and lists their children. A member is checked at its first refresh, after twice as many
// each time, and in the end as often as its turn would come if one were checked in each. One that has not run since
// has no other children, and is in other cgroups only if another process has moved it: that is seen in turn.
func (m *membership) checkMembers() {
	o, listed := &m.outside, m.procs // not what is found from here on
	for range min(len(listed), 1+len(listed)/longestPause) {
		o.turn++
		if p := listed[o.turn%len(listed)]; !p.dead && p.identified {
			m.placeListed(p)
		}
	}
	longest := uint64(max(2, min(len(listed), longestPause)))
	left := mostChecks + len(listed)/checkedShare
	for _, p := range listed {
		asleep := p.checks > 0 && m.clocks && p.tree.cpu+p.before == p.checkedCPU
		if asleep || p.dead || !p.identified || p.nextCheck > m.round {
			continue
		}
		if left--; left < 0 {
			return
		}
		p.nextCheck = m.round + min(1<<p.checks, longest)
		if 1<<p.checks < longestPause {
			p.checks++
		}
		m.placeListed(p)
		var err error
		if p.checkedCPU, err = m.clock(p); err != nil {
			p.checkedCPU = -1 // whether it has run since is not known
		}
		m.findChildren(p)
	}
}

// place notes in which hierarchies a process is outside the task's cgroup.
func (m *membership) place(p *process) {
	outside, err := m.accountsOutside(m.readUnproved(p, kernel.FileCgroup))
	if err != nil {
		return
	}
	if outside&^p.outside != 0 || p.leaderless {
		// What is read next proves that this was not another process with the PID.
		stat, err := m.stat(p)
		if err == nil && stat.Exiting() {
			// On v1 a thread that is about to end is in the root already, and in none does it move with the others.
			if stat.Threads <= 1 {
				return
			}
			outside, err = m.accountsOutside(m.readRunningThread(p, kernel.FileCgroup))
		}
		if err != nil {
			return
		}
	}
	p.outside = outside
	m.countLeft(p)
}

// placeListed does the same for a process that cgroup.procs lists: with one hierarchy there is nothing else to ask,
// unless it is listed because its main thread ended there.
func (m *membership) placeListed(p *process) {
	if len(m.paths()) > 1 || p.outside != 0 || p.leaderless {
		m.place(p)
	}
}

// paths returns the paths of the task's cgroup as /proc/PID/cgroup has them.
func (m *membership) paths() kernel.CgroupPaths {
	o := &m.outside
	if o.paths == nil {
		mounts, _ := kernel.CgroupMounts(m.target.FS) // without them there are no paths
		o.paths = kernel.PathsOf(m.target.Cgroup, mounts)
	}
	return o.paths
}

// accountsOutside says of what the task's cgroup has no account of a process with this /proc/PID/cgroup.
func (m *membership) accountsOutside(data []byte, err error) (outside accounts, _ error) {
	if err != nil {
		return 0, err
	}
	err = m.paths().Outside(data, func(controller string) { outside |= m.accountsOf(controller) })
	return outside, err
}

// accountsOf says what of a task is read from its cgroup in the hierarchy of a controller, empty for v2.
func (m *membership) accountsOf(controller string) (a accounts) {
	v1 := m.target.Cgroup.V1
	a = accountOther
	if controller == "" {
		a |= accountPressure
	}
	for _, of := range [...]struct {
		controller string
		account    accounts
	}{{"cpuacct", accountCPU}, {"memory", accountMemory}, {"blkio", accountIO}} {
		if controller == of.controller || controller == "" && v1[of.controller] == "" {
			a |= of.account
		}
	}
	return a
}

// countLeft counts a process once for each account that it has left.
func (m *membership) countLeft(p *process) {
	o := &m.outside
	left := p.outside &^ p.left
	if p.left == 0 && left != 0 && len(o.first) < maxOutsiders {
		o.first = append(o.first, p.ProcessID)
	}
	p.left |= left
	for i := range o.left {
		if left&(1<<i) != 0 {
			o.leftHere[i]++
			o.left[i] = max(o.left[i], o.leftHere[i])
		}
	}
}

// addCPU adds what processes have used outside since the sample before, if that found them outside too.
func (o *outsiders) addCPU(procs []*process) {
	if !o.found() {
		return
	}
	for _, p := range procs {
		if p.outside&accountCPU == 0 {
			p.outsideCPU = 0
			continue
		}
		if p.outsideCPU > 0 {
			o.cpu += p.tree.cpu - p.outsideCPU
		}
		p.outsideCPU = p.tree.cpu
	}
}

// setOrigin finds out whether a process that the cgroup lists for the first time is a descendant of the executor. One
// that is not was put there by another program, and brings CPU time with it that is not the task's.
func (m *membership) setOrigin(p *process) {
	if m.target.Running && m.byPID[p.ppid] == nil {
		m.countFromHere(p, usedEarlier{}) // also an orphan that was made here: nothing tells
	}
	if !m.tracked() || !p.identified {
		return
	}
	for parent, depth := p.ppid, 0; depth < maxOutsiders; depth++ {
		if parent == m.target.Parent {
			return
		}
		if known := m.byPID[parent]; known != nil && known != p {
			p.foreign = known.foreign
			return
		}
		id, err := kernel.Identify(m.target.FS, parent)
		if err != nil {
			return // it has just ended: whose child this is now is not known yet
		}
		if parent = id.PPID; parent == 0 {
			break
		}
	}
	p.foreign = true
	o := &m.outside
	used := o.usedEarlier[p.ProcessID] // since it joined, which the rows go on from
	o.joinedHere++
	o.joined = max(o.joined, o.joinedHere)
	m.countFromHere(p, used)
}

// hiddenTicks is what a process can have used more of user and of system time than its stat shows.
const hiddenTicks = 2 * procstats.StartTick

// countFromHere takes from a process what it and its reaped children have used so far, but for what is the task's.
func (m *membership) countFromHere(p *process, used usedEarlier) {
	if !p.identified {
		return
	}
	stat, err := m.stat(p)
	if err != nil {
		return
	}
	p.before, p.childrenBefore = stat.Own()+hiddenTicks, 0
	if stat.Cminflt > 0 { // else it has reaped none
		p.childrenBefore = max(0, stat.Children()+hiddenTicks-used.children)
	}
	if cpu, err := m.clock(p); err == nil {
		p.before = cpu
	}
	p.before = max(0, p.before-used.cpu)
	p.minfltBefore, p.majfltBefore = stat.Minflt, stat.Majflt
	io, _ := kernel.ReadProcIO(m.target.FS, p.PID) // as the next reading will say
	p.io.earlier = countersOf(io)
	if m.target.Joined != nil {
		m.target.Joined(p.PID)
	}
}

// outsideReading returns what is known of the processes outside; without a reason to look, why not.
func (m *membership) outsideReading(id procstats.ID) procstats.Reading {
	o := &m.outside
	switch {
	case m.cgroup == nil:
		return procstats.AbsentReading(id, "the task has no cgroup of its own")
	case !m.tracked():
		return procstats.AbsentReading(id, "this reader does not know the task's executor")
	case id == procstats.TreeOutside:
		return procstats.NumberReading(id, float64(o.live))
	case id == procstats.TreeJoined:
		return procstats.NumberReading(id, float64(o.joined))
	case id == procstats.TreeOutsideCPU:
		return procstats.NumberReading(id, o.cpu.Seconds())
	}
	return procstats.NumberReading(id, float64(o.left[slices.Index(leftIDs[:], id)]))
}

// usedEarlier is what a process had used of the CPU, since it joined if it did.
type usedEarlier struct{ cpu, children time.Duration }

// continueFrom makes the counts at least those of an earlier reader.
func (o *outsiders) continueFrom(earlier *procstats.Sample) {
	number := func(id procstats.ID) int64 {
		n, _ := earlier.Task.Number(id)
		return int64(n)
	}
	for i, id := range leftIDs {
		o.left[i] = max(o.left[i], number(id))
	}
	o.joined = max(o.joined, number(procstats.TreeJoined))
	o.cpu = max(o.cpu, duration(earlier.Task, procstats.TreeOutsideCPU))
	if o.joined == 0 {
		return // as of most tasks
	}
	o.usedEarlier = make(map[procstats.ProcessID]usedEarlier, len(earlier.Processes))
	for i := range earlier.Processes {
		row := &earlier.Processes[i]
		o.usedEarlier[row.ProcessID] = usedEarlier{
			cpu:      duration(row.Readings, procstats.ProcessCPU),
			children: duration(row.Readings, procstats.ProcessChildrenCPU),
		}
	}
}
