// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// defaultMaxKept bounds the descriptors kept open for one task: 5.4 KiB of kernel memory each.
const defaultMaxKept = 512

// membership knows which processes belong to a task, each by PID and start time, and keeps their files open. The
// sources that read processes share one, so that membership is read once a sample. Processes come from cgroup.procs
// of the task's cgroup and of those nested in it; without a cgroup, or if it is shared with others, from the
// children of the target's roots.
//
// A process stays a member until it is reaped: zombies count, and so do daemons that have left the tree. membership
// is used by one goroutine at a time.
type membership struct {
	target Target
	wants  [kernel.KeptProcessFiles]bool
	// clocks is set while a source accumulates CPU time; verified while one reads every process of every sample.
	clocks, verified bool
	users            int

	cgroup *kernel.CgroupProcs // nil where membership does not come from a cgroup
	tree   childrenWalk

	procs, byAge []*process // by PID, and parents before their children
	spare, order []*process // memory
	byPID        map[int]*process

	collected time.Duration // Stamp.Mono of the sample that was last refreshed for
	round     uint64
	// found counts those of procs that were seen in this round, unseen processes in cgroup.procs that have no PID here.
	found, unseen int
	// changed says that the order of procs and byAge is to be made again, fromTree how the last refresh found them, and
	// lost that a process was seen that ignores SIGCHLD: what its children did is in no other process's counters.
	changed, fromTree, lost bool
	absent                  string

	smaps   smapsRounds
	exited  exitedSum
	outside outsiders

	keptFiles, maxKept int
	shared             *Shared
	pids               []int
}

// exitedSum is what the processes had used that have exited.
type exitedSum struct {
	cpu       time.Duration
	processes int64
	// before and io are what those that another member may have reaped had used before they were counted: the counters
	// of that one have it.
	before time.Duration
	io     ioCounters
}

// newMembership prepares the membership of a task; nothing is opened before the first Collect of a source.
func newMembership(t Target) *membership {
	m := &membership{target: t, shared: t.shared(), byPID: make(map[int]*process)}
	m.smaps = smapsRounds{limits: smapsLimits{Budget: 20 * time.Millisecond, MaxRSS: 8 << 30}, now: kernel.Now}
	if t.Cgroup.Encloses() && t.Cgroup.Procs() != "" {
		m.cgroup = kernel.NewCgroupProcs(t.Cgroup, &m.shared.Buffer)
	}
	if t.FS.Live {
		m.maxKept = maxKeptFiles()
	}
	if t.MaxKept > 0 {
		m.maxKept = min(m.maxKept, t.MaxKept)
	}
	return m
}

// maxKeptFiles leaves most of this process's descriptors to others.
func maxKeptFiles() int {
	return min(kernel.FileLimit()/4, defaultMaxKept)
}

// use counts a source in that reads the files.
func (m *membership) use(files ...kernel.ProcessFile) {
	m.users++
	for _, file := range files {
		m.wants[file] = true
	}
}

// leave counts a source out; the last one closes everything.
func (m *membership) leave() error {
	m.users--
	if m.users > 0 {
		return nil
	}
	var errs []error
	for _, p := range m.procs {
		errs = append(errs, m.release(p))
	}
	m.procs, m.byAge = nil, nil
	clear(m.byPID)
	if m.cgroup != nil {
		errs = append(errs, m.cgroup.Close())
	}
	return errors.Join(errs...)
}

// refresh brings the membership up to date, once for each sample.
func (m *membership) refresh(s *procstats.Sample) {
	if s.Mono != 0 && s.Mono == m.collected {
		return
	}
	m.collected = s.Mono
	m.round++
	m.absent, m.unseen, m.found = "", 0, 0
	listed, err := m.listCgroup()
	if m.fromTree = listed == 0 && m.target.Roots != nil; m.fromTree {
		m.walkTree()
	} else if listed == 0 {
		m.absent = m.unknown(err)
	}
	if m.target.Running && m.round == 1 {
		// Children first: what one has used that is reaped meanwhile is in what its parent had reaped before.
		for _, p := range slices.Backward(m.procs) {
			m.countFromHere(p, usedEarlier{})
		}
	}
	m.findOutside()
	if !m.verified {
		for _, p := range m.procs {
			_ = m.verify(p)
		}
	}
	m.sweep()
	m.findRest()
}

// listCgroup marks what the cgroup lists and returns how many that are.
func (m *membership) listCgroup() (listed int, err error) {
	if m.cgroup == nil {
		return 0, nil
	}
	known := len(m.procs)
	m.pids, m.unseen, err = m.cgroup.List(m.pids[:0])
	m.seeListed()
	for _, p := range m.procs[known:] {
		m.setOrigin(p)
	}
	if m.cgroup.Nested && m.missing() {
		// A process that moves among nested cgroups while they are listed can be in none of the lists.
		var again int
		m.pids, again, err = m.cgroup.List(m.pids[:0])
		m.unseen = max(m.unseen, again)
		m.seeListed()
	}
	return len(m.pids) + m.unseen, err
}

func (m *membership) seeListed() {
	for _, pid := range m.pids {
		m.see(pid, 0)
	}
}

// unknown says why the members are not known, empty for a cgroup without processes, or one that is gone.
func (m *membership) unknown(listing error) string {
	switch {
	case listing != nil:
		return "read cgroup.procs: " + listing.Error()
	case m.cgroup == nil:
		return "neither a cgroup of its own nor a first process of the task is known"
	}
	return ""
}

// missing reports whether a known process was not seen in this round.
func (m *membership) missing() bool { return m.found != len(m.procs) }

// see marks the process with a PID as found and returns it, nil without one. A PID that is not known is
// looked at first; parent is what its parent has to be, 0 for any.
func (m *membership) see(pid, parent int) *process {
	p := m.byPID[pid]
	switch {
	case p == nil:
	case p.dead:
		m.markExited(p)
		p = nil
	case !p.identified: // whether it is the same process as last time, and still hidden, has to be asked again
		m.drop(p)
		p = nil
	}
	if p == nil {
		if p = m.admit(pid, parent); p == nil {
			return nil
		}
		m.byPID[pid] = p
		m.procs = append(m.procs, p)
		m.changed = true
	}
	if p.round != m.round {
		p.round = m.round
		m.found++
	}
	return p
}

// admit identifies the process that has a PID now; nil where it is gone already, or is another parent's child.
func (m *membership) admit(pid, parent int) *process {
	f, err := m.open(pid, kernel.FileStat)
	if err == nil {
		m.shared.Buffer, err = f.ReadRecord(m.shared.Buffer)
	}
	var stat kernel.ProcStat
	if err == nil {
		stat, err = kernel.ParseProcStat(m.shared.Buffer)
	}
	if err != nil || parent != 0 && stat.PPID != parent {
		_ = f.Close()
		if err == nil || kernel.Gone(err) && !m.hidden(pid) {
			return nil
		}
		p := m.newProcess(procstats.ProcessID{PID: pid})
		p.cannotRead(err)
		return p
	}
	p := m.newProcess(procstats.ProcessID{PID: pid, Start: stat.Start})
	p.identified = true
	p.setStat(&stat)
	if !m.keep(p, kernel.FileStat, f) {
		_ = f.Close()
	}
	return p
}

// hidden reports whether a process without a visible folder exists all the same (hidepid=invisible).
func (m *membership) hidden(pid int) bool {
	if !m.target.FS.Live {
		return false
	}
	_, err := kernel.ProcessCPU(pid)
	return err == nil
}

func (m *membership) newProcess(id procstats.ProcessID) *process {
	if n := len(m.spare); n > 0 {
		p := m.spare[n-1]
		m.spare = m.spare[:n-1]
		*p = process{ProcessID: id}
		return p
	}
	return &process{ProcessID: id}
}

// sweep drops the processes that are gone, and those that are in the task no longer.
func (m *membership) sweep() {
	for _, p := range m.procs {
		p.dead = p.dead || p.round != m.round && !m.stays(p)
	}
	m.sweepDead()
}

// stays reports whether a process that was not found belongs to the task still. In a cgroup zombies do, which newer
// kernels leave out of cgroup.procs. One that runs has moved to another cgroup: it does if it is known as the task's,
// otherwise what it had used when it was last seen here is.
func (m *membership) stays(p *process) bool {
	if m.fromTree || !p.identified {
		return false
	}
	cpu, clockErr := m.clock(p)
	stat, err := m.stat(p)
	if err != nil || !stat.Ended() && (!m.tracked() || p.foreign) {
		return false
	}
	if clockErr == nil {
		p.tree.cpu = max(p.tree.cpu, cpu-p.before)
	}
	if !stat.Ended() {
		m.place(p)
	}
	p.round = m.round
	return !p.dead
}

// reapElsewhere reports whether processes may have children that are none of the task's, which is all that runs in a
// cgroup: counters of reaped children say nothing then.
func (m *membership) reapElsewhere() bool { return m.target.Running && m.cgroup != nil }

// markExited ends a membership: the last readings of the process are added to those of exited ones.
func (m *membership) markExited(p *process) {
	if p.dropped {
		return
	}
	if p.sampled {
		m.exited.processes++
		m.exited.cpu += p.tree.cpu
	}
	before := p.before + p.childrenBefore
	ranBefore := before > 0 || p.io.earlier != ioCounters{} // of few: the search takes as long as there are processes
	if ranBefore && (p.orphaned || slices.ContainsFunc(m.procs, func(q *process) bool { return q.PID == p.ppid })) {
		m.exited.before += before
		m.exited.io.add(&p.io.earlier, 1)
	}
	m.drop(p)
}

// countExited adds up what an earlier sample says of processes that have exited, and the rows of those that are gone
// now.
func (m *membership) countExited(earlier *procstats.Sample, alive func(procstats.ProcessID) bool) {
	exited, _ := earlier.Task.Number(procstats.TreeProcessesExited)
	cpu := duration(earlier.Task, procstats.TreeCPUExited)
	for i := range earlier.Processes {
		if row := &earlier.Processes[i]; !alive(row.ProcessID) {
			exited++
			cpu += duration(row.Readings, procstats.ProcessCPU)
		}
	}
	m.exited.cpu, m.exited.processes = max(m.exited.cpu, cpu), max(m.exited.processes, int64(exited))
}

// drop closes the kept-open files of a process and removes it from the table; rebuild removes it from the lists.
func (m *membership) drop(p *process) {
	_ = m.release(p)
	p.dead, p.dropped = true, true
	delete(m.byPID, p.PID)
	m.changed = true
}

// rebuild makes procs and byAge anew from the processes that are left.
func (m *membership) rebuild() {
	left, ended := m.procs[:0], len(m.spare)
	for _, p := range m.procs {
		if p.dropped {
			m.spare = append(m.spare, p)
		} else {
			left = append(left, p)
		}
	}
	for _, parent := range m.spare[ended:] {
		for _, p := range left {
			p.orphaned = p.orphaned || p.ppid == parent.PID
		}
	}
	clear(m.procs[len(left):])
	m.procs = left
	slices.SortFunc(m.procs, byPID)
	// No process is older than its parent. Within one tick the PIDs decide, which run up but for their wrap-around.
	m.byAge = append(m.byAge[:0], m.procs...)
	slices.SortFunc(m.byAge, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), byPID(a, b))
	})
	m.changed = false
}

func byPID(a, b *process) int { return cmp.Compare(a.PID, b.PID) }

// sweepDead drops the processes that a source has found gone since the refresh.
func (m *membership) sweepDead() {
	for _, p := range m.procs {
		if p.dead {
			m.markExited(p)
		}
	}
	if m.changed {
		m.rebuild()
	}
}

// faults counts the members that could not be read whole, with the reason; sums are absent then.
func (m *membership) faults(fault func(*process) string) (n int, reason string) {
	n, reason = m.unseen, reasonUnseen
	for _, p := range m.procs {
		why := fault(p)
		if why == "" {
			continue
		}
		if n == 0 {
			reason = why
		}
		n++
	}
	if n > 0 {
		reason = procstats.WithCounts("processes cannot be read: "+reason, fmt.Sprintf("%d of %d", n, m.count()))
	}
	return n, reason
}
