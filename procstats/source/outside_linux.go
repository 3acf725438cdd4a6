// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"math"
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
var leftIDs = [...]procstats.ID{procstats.TreeLeftCPU, procstats.TreeLeftMemory, procstats.TreeLeftIO, procstats.TreeLeftPressure}

type leftCounts [len(leftIDs)]int64

// leftCPU reports whether a process has left the cgroup that counts its CPU time, as this reader or an earlier one has seen.
func (o *outsiders) leftCPU() bool { return o.left[0] > 0 }

// outsiders finds the processes of a task that have left its cgroup, or were started elsewhere.
//
// What leaves while it is known is missing in cgroup.procs, which costs nothing to see. For the rest members are
// looked at: at their cgroups in the other hierarchies of v1, and at their children, which the cgroup may never have had.
// That is done while they are young, when most that leave do, and then in turn, one or a hundredth of them a sample. One that
// has not run since is not asked for children again. The direct children of the executor are listed on a slow clock.
type outsiders struct {
	paths   kernel.CgroupPaths
	read    bool // paths were
	turn    int
	rootsAt time.Duration // when the executor's children were listed
	// rootsPause is how long they are not listed again.
	rootsPause time.Duration
	// rest is what the processes had used when they were listed; false if they are to be listed again whatever they do.
	rest   restingTask
	rested bool
	// youngAt is the refresh in which a young process is next looked at.
	youngAt uint64

	live   int
	left   leftCounts
	joined int64

	cpu time.Duration // used by processes between two samples that found them outside
	// earlier is what an earlier reader has counted of processes that may be found again.
	earlier countedEarlier
	// first are those that were seen, at most maxOutsiders.
	first []procstats.ProcessID
}

const (
	// The executor's children are listed after twice as long each time, from rootsSoon to rootsEvery.
	rootsSoon    = 250 * time.Millisecond
	rootsEvery   = 10 * time.Second
	maxOutsiders = 16
	// youngLooks is how often a young process is looked at, after twice as many samples each time, and maxYoung at how many a
	// sample.
	youngLooks = 4
	maxYoung   = 8
)

// tracked reports whether the task has a cgroup that its processes can leave, and can be known as the task's then.
func (m *Members) tracked() bool { return m.cgroup != nil && m.target.Parent != 0 && m.target.FS.Live }

// findOutside marks the processes that are not in the cgroup, and everything below them, and notes which those are.
func (m *Members) findOutside() {
	o := &m.outside
	o.live = 0
	if !m.tracked() {
		return
	}
	if m.fromTree {
		for _, p := range m.procs {
			if p.identified && (p.outside == 0 || p.leaderless) { // one that came back is listed, unless its main thread has ended
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

// found reports whether any process was ever found outside: most tasks have none, and nothing else to look through then.
func (o *outsiders) found() bool { return len(o.first) > 0 }

func (m *Members) findUnlisted() {
	o, w := &m.outside, &m.tree
	w.queue = w.queue[:0]
	if m.missing() {
		for _, p := range m.procs {
			if p.round != m.round && !p.dead && m.stays(p) && p.outside != 0 {
				w.queue = append(w.queue, p)
			}
		}
	}
	if m.target.Roots != nil && (o.rootsAt == 0 || m.collected-o.rootsAt >= o.rootsPause) {
		o.rootsAt, o.rootsPause = m.collected, min(max(rootsSoon, 2*o.rootsPause), rootsEvery)
		m.findRoots()
	}
	listed := len(m.procs) // what is found from here on is none of them
	for range min(listed, 1+listed/128) {
		o.turn++
		p := m.procs[o.turn/2%listed]
		switch {
		case p.dead || !p.identified:
		case o.turn%2 == 0:
			m.placeListed(p)
		case !m.hasRun(p):
		default:
			m.findChildrenAt(p)
		}
	}
	m.lookAtYoung(listed)
	for i := 0; i < len(w.queue); i++ {
		m.place(w.queue[i])
		m.findChildren(w.queue[i])
	}
}

// restingTask is what a task of few processes, all in its cgroup, and its executor have used of the CPU. As long as that is so, none
// of them has started a process, and none has ended: the executor has got no other children.
type restingTask struct {
	executor time.Duration
	used     [mostResting]time.Duration
	ids      [mostResting]procstats.ProcessID
}

// mostResting is of how many processes at most it is cheaper to ask for the CPU time than to list the executor's children.
const mostResting = 4

// resting returns it; false if a process may have children that were not looked for.
func (m *Members) resting() (rest restingTask, ok bool) {
	if m.outside.found() || len(m.procs) > mostResting || m.missing() || !m.clocks {
		return rest, false
	}
	var err error
	if rest.executor, err = kernel.ProcessCPU(m.target.Parent); err != nil {
		return rest, false
	}
	for i, p := range m.procs {
		rest.ids[i] = p.ProcessID
		if rest.used[i], err = m.clock(p); err != nil || p.dead || !p.identified || p.looks == 0 || rest.used[i] != p.childrenAtCPU {
			return rest, false
		}
	}
	return rest, true
}

// findRoots lists the children of the executor, unless they are those of the last time.
func (m *Members) findRoots() {
	o := &m.outside
	rest, ok := m.resting()
	if ok && o.rested && rest == o.rest {
		return
	}
	o.rest, o.rested = rest, ok
	for _, pid := range m.target.Roots() {
		m.find(pid, m.target.Parent)
	}
}

// lookAtYoung looks at the cgroups and children of processes that have not been members for long.
func (m *Members) lookAtYoung(listed int) {
	o, left := &m.outside, maxYoung
	if m.round < o.youngAt {
		return
	}
	o.youngAt = math.MaxUint64
	for _, p := range m.procs[:listed] {
		if p.looks >= youngLooks || p.dead || !p.identified {
			continue
		}
		if p.lookAt <= m.round && left > 0 {
			p.lookAt = m.round + 1<<p.looks
			if p.looks == 0 || !m.clocks || p.tree.cpu+p.before != p.childrenAtCPU { // it has run
				left--
				p.looks++
				m.placeListed(p)
				m.findChildrenAt(p)
			}
		}
		o.youngAt = min(o.youngAt, p.lookAt)
	}
}

// hasRun reports whether a process can have run since its children were looked for: otherwise it has made none.
func (m *Members) hasRun(p *process) bool {
	cpu, err := m.clock(p)
	return err != nil || p.looks == 0 || cpu != p.childrenAtCPU
}

// findChildrenAt finds the children of a process, and remembers how much CPU time it had used before.
func (m *Members) findChildrenAt(p *process) {
	p.childrenAtCPU, _ = m.clock(p) // without a clock nothing is remembered
	m.findChildren(p)
}

// place notes in which hierarchies a process is outside the task's cgroup.
func (m *Members) place(p *process) {
	m.readPaths()
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

// accountsOutside says of what the task's cgroup has no account of a process with this /proc/PID/cgroup.
func (m *Members) accountsOutside(data []byte, err error) (outside accounts, _ error) {
	if err != nil {
		return 0, err
	}
	err = m.outside.paths.Outside(data, func(controller string) { outside |= m.accountsOf(controller) })
	return outside, err
}

// placeListed does the same for a process that cgroup.procs lists: with one hierarchy there is nothing else to ask, unless it is
// listed because its main thread ended there.
func (m *Members) placeListed(p *process) {
	if m.readPaths(); len(m.outside.paths) > 1 || p.outside != 0 || p.leaderless {
		m.place(p)
	}
}

func (m *Members) readPaths() {
	o := &m.outside
	if o.read {
		return
	}
	o.read = true
	if mounts, err := kernel.CgroupMounts(m.target.FS); err == nil {
		o.paths = kernel.PathsOf(m.target.Cgroup, mounts)
	}
}

// accountsOf says what of a task is read from its cgroup in the hierarchy of a controller, empty for v2.
func (m *Members) accountsOf(controller string) (a accounts) {
	v1 := m.target.Cgroup.V1
	a = accountOther
	if controller == "" {
		a |= accountPressure
	}
	if controller == "cpuacct" || controller == "" && v1["cpuacct"] == "" {
		a |= accountCPU
	}
	if controller == "memory" || controller == "" && v1["memory"] == "" {
		a |= accountMemory
	}
	if controller == "blkio" || controller == "" && v1["blkio"] == "" {
		a |= accountIO
	}
	return a
}

// countLeft counts a process once for each account that it has left.
func (m *Members) countLeft(p *process) {
	o := &m.outside
	left := p.outside &^ p.left
	if p.left == 0 && left != 0 && len(o.first) < maxOutsiders {
		o.first = append(o.first, p.ProcessID)
	}
	p.left |= left
	for i := range o.left {
		if left&(1<<i) != 0 && !o.earlier.has(p.ProcessID, &o.earlier.left[i]) {
			o.left[i]++
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

// setOrigin finds out whether a process that the cgroup lists for the first time is a descendant of the executor. One that
// is not was put there by another program, and brings CPU time with it that is not the task's.
func (m *Members) setOrigin(p *process) {
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
	used := o.earlier.used[p.ProcessID] // since it joined, which the rows go on from
	if !o.earlier.has(p.ProcessID, &o.earlier.joined) {
		o.joined++
	}
	stat, err := m.stat(p)
	if err != nil {
		return
	}
	p.before, p.childrenBefore = stat.Own(), max(0, stat.Children()-used.children)
	if cpu, err := m.clock(p); err == nil {
		p.before = cpu
	}
	p.before = max(0, p.before-used.cpu)
}

// putOutside puts in what is known of the processes outside; without a reason to look, why not.
func (m *Members) putOutside(s *procstats.Sample, id procstats.ID) {
	if !m.tracked() {
		reason := "the task has no cgroup of its own"
		if m.cgroup != nil {
			reason = "this reader does not know the task's executor"
		}
		s.SetAbsent(id, reason)
		return
	}
	o := &m.outside
	switch id {
	case procstats.TreeOutside:
		s.SetNumber(id, float64(o.live))
	case procstats.TreeJoined:
		s.SetNumber(id, float64(o.joined))
	case procstats.TreeOutsideCPU:
		s.SetNumber(id, o.cpu.Seconds())
	default:
		s.SetNumber(id, float64(o.left[slices.Index(leftIDs[:], id)]))
	}
}
