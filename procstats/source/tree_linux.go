// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// treeSource reads every process of a task: CPU time by the process's own clock, memory from statm, the rest from
// stat. It is a Source; see openTree.
type treeSource struct {
	processSource
	// aboutOutside and aboutQueue are the measurements of processes outside the cgroup, and of threads that wait for a
	// CPU.
	aboutOutside, aboutQueue procstats.Selection
	// stat is whether more than the clock and statm is asked for; lineage whether the time of reaped children is.
	stat, lineage bool
	// delay and switches are what is read of every thread of a process in a row.
	delay, switches bool
	// smaps is whether the task's memory is asked for, and its processes are all that it can be taken from: what a cgroup
	// says costs less and has everything.
	smaps bool
	// carries reports whether the memory of a process that has not run may be that of an earlier sample, an upper bound.
	carries bool
	// ticks is set where processes have no CPU clocks: captured files, sandboxes. clocked is set once one was read.
	ticks, clocked bool

	sinceBoot time.Duration // when the rows were read; 0 for captured files
	now       func() procstats.Stamp

	total time.Duration // the most that tree_cpu_seconds_total has said
	lost  bool
	rows  time.Duration // what the rows and the exited processes of the last collection add up to
	late  lateCPU

	uncharged unchargedMemory
}

// treeReading is what the tree source last read of a process.
type treeReading struct {
	cpu            time.Duration // never falls
	before         time.Duration // cpu in the sample before
	children       time.Duration
	state          byte
	threads        uint64
	minflt, majflt uint64
	// memory is what statm said last, and previous in the sample before.
	memory, previous kernel.ProcStatm
	// mapped is Shared of memory, or less if it was less when the charge had been read.
	mapped int64
}

// openTree returns the source of the tree_ and process_ measurements that are read of every process. m is shared
// with the other sources that read processes; nil makes one for this source alone. tree_cpu_unattributed_seconds is
// measured against the total of the cgroup if there is one, once that was read too: see CollectAll.
func openTree(t Target, sel procstats.Selection, m *membership) *treeSource {
	tree := &treeSource{
		processSource: newProcessSource(procstats.SourceTree, t, sel, m, kernel.FileStatm),
		aboutOutside:  procstats.SetSelection(procstats.OutsideSet),
		aboutQueue:    procstats.SetSelection(procstats.RunQueueSet),
		ticks:         !t.FS.Live,
		now:           kernel.Now,
	}
	if t.FS.Live {
		tree.late.cpus = kernel.CPUs(t.FS)
	}
	if tree.members.cgroup == nil {
		tree.members.wants[kernel.FileTask], tree.members.wants[kernel.FileChildren] = true, true
	}
	for _, id := range slices.Concat(tree.task, tree.process) {
		switch id {
		case procstats.TreeCPU:
			tree.stat, tree.lineage = true, !tree.members.reapElsewhere()
		case procstats.TreeCPUUnattributed, procstats.TreeCPUAtRows:
			// Where the cgroup has a total, that is the one; it was read by then.
			if !sel.Has(procstats.CgroupCPUUsage) || !t.Cgroup.Encloses() {
				tree.stat, tree.lineage = true, !tree.members.reapElsewhere()
			}
		case procstats.TreeMemory, procstats.TreeSwap:
			tree.smaps = !t.Cgroup.Encloses() || !chargesMemory(t.Cgroup)
		case procstats.TreeThreads, procstats.ProcessChildrenCPU, procstats.ProcessState, procstats.ProcessThreads,
			procstats.ProcessMinflt, procstats.ProcessMajflt:
			tree.stat = true
		case procstats.TreeUncharged, procstats.TreeUnchargedData, procstats.TreeUnchargedAround,
			procstats.TreeChargedMapped:
			tree.uncharged.asked = true
		case procstats.ProcessRunDelay:
			tree.delay = true
		case procstats.ProcessVoluntarySwitches, procstats.ProcessInvoluntarySwitches:
			tree.switches = true
		}
	}
	tree.carries = !tree.smaps && !sel.Has(procstats.ProcessShared)
	if tree.stat {
		tree.members.wants[kernel.FileStat] = true
	}
	tree.members.verified, tree.members.clocks = true, true
	return tree
}

// Describe implements Source. The version says where membership comes from: cgroup.procs or children.
func (t *treeSource) Describe() procstats.SourceDescription {
	return t.members.describe(procstats.SourceTree, "", "")
}

// Collect implements Source.
//
// The order of reading is what makes the total a lower bound at every moment: first what was reaped, then all
// parents' cutime and cstime, then the clocks. A process whose clock counts was alive then, so that none of what
// was read before has it too; one that ends in between is missing until the next sample.
func (t *treeSource) Collect(s *procstats.Sample) {
	var reaped time.Duration
	m := t.members
	if t.lineage && m.target.Reaped != nil {
		reaped = m.target.Reaped().CPU
	}
	if !t.refresh(s) {
		return
	}
	if !t.lineage && m.outside.leftCPU() {
		t.stat, t.lineage = true, true // the cgroup's total is not the task's any more
		for _, p := range m.procs {
			p.still = false // the whole reading was without stat
		}
	}
	for _, p := range m.procs {
		p.unreadable, p.tree.before = !p.identified, p.tree.cpu
	}
	if t.stat || t.ticks {
		for _, p := range m.procs {
			t.readStat(p)
		}
	}
	s.SetRead(procstats.SourceTree, t.readClocks())
	m.outside.addCPU(m.procs)
	m.sweepDead()
	if t.smaps {
		m.refreshSmaps()
	}
	before := t.total
	sums := t.add(reaped)
	t.late.count(s.Sources.At(procstats.SourceTree), t.total-before)
	t.putTask(s, sums)
	rank := func(p *process) [2]int64 { return [2]int64{int64(p.tree.cpu - p.tree.before), p.tree.memory.Resident} }
	t.putRows(s, rank, func(id procstats.ID, p *process) procstats.Reading { return t.reading(id, p, s.Mono) })
	m.sweepDead() // those that have ended since
}

// readClocks reads the clocks of all processes and returns when it began. Rates are over the time between two
// beginnings: one that was interrupted counts what the processes used meanwhile, and is made again.
func (t *treeSource) readClocks() procstats.Stamp {
	const tries, perProcess = 3, 20 * time.Microsecond
	longest := 2*time.Millisecond + time.Duration(len(t.members.procs))*perProcess
	for try := 1; ; try++ {
		began := t.now()
		if t.members.target.FS.Live {
			t.sinceBoot = kernel.SinceBoot()
		}
		for _, p := range t.members.procs {
			t.readClock(p)
		}
		if !t.lineage || try == tries || t.now().Mono-began.Mono <= longest {
			return began
		}
	}
}

// readStat reads what the selection needs from /proc/PID/stat.
func (t *treeSource) readStat(p *process) {
	if p.dead || !p.identified || p.still {
		return
	}
	stat, err := t.members.stat(p)
	if err != nil {
		p.cannotRead(err)
		return
	}
	r := &p.tree
	r.state, r.threads = stat.State, stat.Threads
	r.minflt, r.majflt = stat.Minflt-p.minfltBefore, stat.Majflt-p.majfltBefore
	r.children = max(0, stat.Children()-p.childrenBefore)
	if t.ticks {
		r.cpu = max(r.cpu, stat.Own()-p.before)
	}
	if stat.Sigignore&(1<<(unix.SIGCHLD-1)) != 0 {
		t.lost = t.lost || t.lineage
		t.members.lost = true
	}
}

// readClock reads the CPU clock and then statm, which proves whose clock it was.
func (t *treeSource) readClock(p *process) {
	if p.dead || !p.identified {
		return
	}
	m := t.members
	cpu, clockErr := m.clock(p)
	// A clock that has stood still to the nanosecond proves as well whose it is.
	p.carried = t.carries && p.still && clockErr == nil && cpu == p.clock && !p.kept[kernel.FileStatm].IsOpen() &&
		len(m.procs) > defaultMaxKept
	if p.carried {
		p.tree.previous = p.tree.memory
		return
	}
	memory, err := m.statm(p)
	if err != nil {
		p.cannotRead(err)
		return
	}
	r := &p.tree
	// Without stat in every sample a new program shows by its address space, which hardly ever is as large.
	renamed := memory.Size != r.memory.Size
	r.previous, r.memory = r.memory, memory
	switch {
	case t.ticks:
	case clockErr == nil:
		r.cpu = max(r.cpu, cpu-p.before)
		t.clocked = true
		if !t.stat && (renamed || p.orphaned) {
			t.readStat(p)
		}
	default:
		// The process is there and its clock is not: not now, while a thread of it takes its place in an exec, or
		// not ever.
		t.ticks = true
		t.readStat(p)
		t.ticks = !t.clocked
	}
}

// treeSums are the sums over all live processes.
type treeSums struct {
	live, total time.Duration
	rss, size   int64 // in pages
	threads     uint64
	zombies     int
}

// add makes the sums; every process is in them, those without a row too.
func (t *treeSource) add(reaped time.Duration) treeSums {
	var sums treeSums
	total := reaped - t.members.exited.before
	for _, p := range t.members.procs {
		if !p.sampled {
			t.late.find(p)
			p.sampled = true
		}
		sums.live += p.tree.cpu
		sums.rss += p.tree.memory.Resident
		sums.size += p.tree.memory.Size
		sums.threads += p.tree.threads
		if p.ended {
			sums.zombies++
		}
		if total += p.tree.cpu; t.lineage {
			total += p.tree.children
		}
	}
	// Both are lower bounds: children's time is kept in ticks, and is lost where a parent ignores SIGCHLD; last
	// readings miss what came and went between samples. The larger is nearer, and a counter never falls.
	t.total = max(t.total, total, sums.live+t.members.exited.cpu)
	sums.total = t.total
	return sums
}

func (t *treeSource) putTask(s *procstats.Sample, sums treeSums) {
	unreadable, reason := t.members.faults(func(p *process) string {
		if p.unreadable {
			return p.fault.reason
		}
		return ""
	})
	for _, id := range t.task {
		switch {
		case t.aboutOutside.Has(id):
			s.Task.Put(t.members.outsideReading(id))
		case id == procstats.TreeProcesses:
			s.SetNumber(id, float64(t.members.count()-sums.zombies))
		case id == procstats.TreeProcessesExited:
			s.SetNumber(id, float64(t.members.exited.processes))
		case id == procstats.TreeCPUExited:
			s.SetNumber(id, t.members.exited.cpu.Seconds())
		case id == procstats.TreeMemory && (unreadable < t.members.count() || unreadable == 0):
			s.SetNumber(id, float64(t.leastMemory()))
		case id == procstats.TreeSwap:
			s.Task.Put(t.members.swap())
		case id >= procstats.TreeUncharged && id <= procstats.TreeUnchargedAround,
			id == procstats.TreeChargedMapped: // see putUncharged
		case unreadable > 0:
			s.SetAbsent(id, reason)
		case id == procstats.TreeCPUUnattributed || id == procstats.TreeCPUAtRows: // see closeSum
			t.rows = sums.live + t.members.exited.cpu
		default:
			s.SetNumber(id, t.sum(id, sums))
		}
	}
}

func (t *treeSource) sum(id procstats.ID, sums treeSums) float64 {
	page := float64(os.Getpagesize())
	switch id {
	case procstats.TreeCPU:
		return sums.total.Seconds()
	case procstats.TreeRSS:
		return float64(sums.rss) * page
	case procstats.TreeVsize:
		return float64(sums.size) * page
	case procstats.TreeThreads:
		return float64(sums.threads)
	case procstats.TreeZombies:
		return float64(sums.zombies)
	case procstats.TreeCPULive:
		return sums.live.Seconds()
	}
	return t.late.total.Seconds()
}

// closeSum puts in the task's total and what closes the sum of rows, exited and unattributed against it. The total is
// the headline's, which was read after the rows and so has all that they have.
func (t *treeSource) closeSum(s *procstats.Sample) {
	t.putUncharged(s)
	_, inCgroup := s.Task.Number(procstats.CgroupCPUUsage)
	total, _ := procstats.CPUTotal(s).Reading.Number()
	known := inCgroup && !t.members.target.Cgroup.Shared
	if !known && t.lineage {
		known, total = true, t.total.Seconds()
	}
	for _, sum := range [...]procstats.Reading{
		procstats.NumberReading(procstats.TreeCPUUnattributed, total-t.rows.Seconds()),
		procstats.NumberReading(procstats.TreeCPUAtRows, total),
	} {
		if _, put := s.Task.Get(sum.ID()); put || !slices.Contains(t.task, sum.ID()) {
			continue // not known, with the reason
		}
		if !known {
			sum = procstats.AbsentReading(sum.ID(), "no total to compare with: cgroup_cpu_usage_seconds_total was not read")
		}
		s.Task.Put(sum)
	}
}

// reading returns one measurement of a process for a sample of a time.
func (t *treeSource) reading(id procstats.ID, p *process, now time.Duration) procstats.Reading {
	switch {
	case p.unreadable:
		return procstats.AbsentReading(id, p.fault.reason)
	case id == procstats.ProcessCmdline:
		t.readCmdline(p, now)
		return p.cmdline.reading()
	case t.aboutQueue.Has(id):
		t.readQueue(p)
		return p.queue.reading(id)
	case id == procstats.ProcessState:
		return procstats.TextReading(id, string([]byte{p.tree.state}))
	case id == procstats.ProcessCommand:
		return procstats.TextReading(id, p.command)
	case id == procstats.ProcessStartTime:
		return procstats.NumberReading(id, p.sinceBoot().Seconds())
	case id == procstats.ProcessElapsed && t.sinceBoot == 0:
		return procstats.AbsentReading(id, "the files do not say when they were captured")
	case id == procstats.ProcessElapsed:
		return procstats.NumberReading(id, max(0, t.sinceBoot-p.sinceBoot()).Seconds())
	}
	return procstats.NumberReading(id, p.tree.number(id))
}

// number returns what was read of a process itself.
func (r *treeReading) number(id procstats.ID) float64 {
	page := float64(os.Getpagesize())
	switch id {
	case procstats.ProcessCPU:
		return r.cpu.Seconds()
	case procstats.ProcessChildrenCPU:
		return r.children.Seconds()
	case procstats.ProcessRSS:
		return float64(r.memory.Resident) * page
	case procstats.ProcessShared:
		return float64(r.memory.Shared) * page
	case procstats.ProcessVsize:
		return float64(r.memory.Size) * page
	case procstats.ProcessThreads:
		return float64(r.threads)
	case procstats.ProcessMinflt:
		return float64(r.minflt)
	}
	return float64(r.majflt)
}

// lostChildren is [Collector.LostChildren].
func (t *treeSource) lostChildren() bool { return t.lost }

func (t *treeSource) continueFrom(earlier *procstats.Sample, alive func(procstats.ProcessID) bool) {
	t.total = max(t.total, duration(earlier.Task, procstats.TreeCPU))
	t.late.total = max(t.late.total, duration(earlier.Task, procstats.TreeCPULate))
	most, known := earlier.Task.Number(procstats.TreeUncharged)
	data, _ := earlier.Task.Number(procstats.TreeUnchargedData)
	t.uncharged.known, t.uncharged.most, t.uncharged.data = known, int64(most), int64(data)
	around, _ := earlier.Task.Number(procstats.TreeUnchargedAround)
	charged, _ := earlier.Task.Number(procstats.TreeChargedMapped)
	t.uncharged.mostCharged = int64(charged)
	t.uncharged.around, t.uncharged.searched = int64(most+around), int64(most)
	t.members.countExited(earlier, alive)
	t.members.outside.continueFrom(earlier)
}

// duration returns a measurement in seconds; 0 if it was not read.
func duration(readings procstats.Readings, id procstats.ID) time.Duration {
	seconds, _ := readings.Number(id)
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// outside returns the first processes of the task that were seen outside its cgroup.
func (t *treeSource) outside() []procstats.ProcessID { return t.members.outside.first }

// Close implements Source.
func (t *treeSource) Close() error {
	if !t.closed {
		t.members.verified, t.members.clocks = false, false
	}
	return t.processSource.Close()
}
