// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"slices"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// ioCounters are the counters of a ProcIO, in the order of ioTreeIDs and ioProcessIDs.
type ioCounters [5]int64

// Indexes of ioCounters.
const (
	ioWritten   = 3
	ioCancelled = 4
)

//nolint:gochecknoglobals // constant
var (
	ioTreeIDs = [...]procstats.ID{
		procstats.TreeIORchar, procstats.TreeIOWchar, procstats.TreeIORead, procstats.TreeIOWrite,
		procstats.TreeIOCancelledWrite,
	}
	ioProcessIDs = [...]procstats.ID{
		procstats.ProcessIORchar, procstats.ProcessIOWchar, procstats.ProcessIORead, procstats.ProcessIOWrite,
		procstats.ProcessIOCancelledWrite,
	}
)

func countersOf(io kernel.ProcIO) ioCounters {
	return ioCounters{io.Rchar, io.Wchar, io.ReadBytes, io.WriteBytes, io.CancelledWriteBytes}
}

func (c *ioCounters) add(other *ioCounters, sign int64) {
	for i, n := range other {
		c[i] += sign * n
	}
}

// ioSource reads /proc/PID/io.
type ioSource struct {
	processSource
	// most holds what each total has said at most: the order of reading never counts twice, but what was read of a
	// process that is then reaped is missing until its parent is read again.
	most   ioCounters
	missed int64 // reaped processes whose last values could not be read
	// stored is what has reached storage at least, unwritten what may not have.
	stored    int64
	unwritten kernel.Unwritten
}

// ioReading is what the source last read of a process; what a parent has reaped is in it.
type ioReading struct {
	// now and before are without what the process had counted earlier, before it was the task's or the task was read.
	now, before, earlier ioCounters
	fault                fault
}

// openIO returns the source of the tree_io_ and process_io_ measurements. m is shared with the other sources that
// read processes; nil makes one for this source alone. A target's Reaped must count a child's I/O only when the
// child has been reaped: until then its own /proc/PID/io is read.
func openIO(t Target, sel procstats.Selection, m *membership) *ioSource {
	return &ioSource{
		processSource: newProcessSource(procstats.SourceIO, t, sel, m,
			kernel.FileIO, kernel.FileStatm, kernel.FileTask, kernel.FileChildren),
		unwritten: kernel.NewUnwritten(t.FS),
	}
}

// Describe implements Source.
func (o *ioSource) Describe() procstats.SourceDescription {
	return o.members.describe(procstats.SourceIO, "io", "a kernel with CONFIG_TASK_IO_ACCOUNTING")
}

// Collect implements Source.
//
// The kernel moves a child's values to its parent at the reap, so parents are read before their children: a child
// that is reaped in between is missing in this reading, and in none twice.
func (o *ioSource) Collect(s *procstats.Sample) {
	var reaped ioCounters
	if o.members.target.Reaped != nil {
		sum := o.members.target.Reaped()
		reaped, o.missed = countersOf(sum.IO), sum.IOMissed
	}
	if !o.refresh(s) {
		return
	}
	m := o.members
	s.SetRead(procstats.SourceIO, kernel.Now())
	for _, p := range m.byAge {
		o.read(p)
	}
	m.sweepDead()
	o.putTask(s, reaped)
	o.putRows(s, rankOfIO, readingOfIO)
}

func (o *ioSource) read(p *process) {
	r := &p.io
	if !p.identified {
		r.fault = p.fault
		return
	}
	if p.still && r.fault.reason == "" {
		r.before = r.now
		return
	}
	data, err := o.members.read(p, kernel.FileIO)
	var now kernel.ProcIO
	if err == nil {
		now, err = kernel.ParseProcIO(data)
	}
	if err != nil {
		r.fault.set(p.PID, kernel.FileIO, err)
		return
	}
	r.before, r.now, r.fault = r.now, countersOf(now), fault{}
	r.now.add(&r.earlier, -1)
}

func (o *ioSource) putTask(s *procstats.Sample, sum ioCounters) {
	failed, reason := o.members.faults(func(p *process) string { return p.io.fault.reason })
	if o.members.reapElsewhere() {
		failed, reason = 1, "the counters of a process include those of its children, which may have run outside the cgroup"
	}
	if failed > 0 {
		putAbsent(s, o.task, reason)
		return
	}
	for _, p := range o.members.procs {
		sum.add(&p.io.now, 1)
	}
	sum.add(&o.members.exited.io, -1)
	for i := range sum {
		o.most[i] = max(o.most[i], sum[i])
	}
	o.advanceStored(sum)
	for _, id := range o.task {
		if id == procstats.TreeIOStored {
			o.putStored(s)
			continue
		}
		most := o.most[slices.Index(ioTreeIDs[:], id)]
		if most == 0 && o.missed > 0 {
			// A zombie's file belongs to root: without privilege nothing is known of who came and went unseen.
			s.SetAbsent(id, reasonMissed(o.missed))
			continue
		}
		s.SetNumber(id, float64(most))
	}
}

// advanceStored raises the lower bound of what has reached storage: all that was written and not deleted before, less
// what the machine has yet to write. Every earlier value holds too. What a process has deleted of which nothing is
// known was perhaps never written, so that nothing is added once there was one.
func (o *ioSource) advanceStored(sum ioCounters) {
	left := sum[ioWritten] - sum[ioCancelled]
	unknown := o.missed > 0 || o.members.lost
	if unknown || left-o.unwritten.Lag() <= o.stored || !slices.Contains(o.task, procstats.TreeIOStored) {
		return
	}
	if unwritten, err := o.unwritten.Read(); err == nil {
		o.stored = max(o.stored, left-unwritten)
	}
}

func (o *ioSource) putStored(s *procstats.Sample) {
	switch {
	case o.stored == 0 && o.missed > 0:
		s.SetAbsent(procstats.TreeIOStored, reasonMissed(o.missed))
	case o.stored == 0 && o.members.lost:
		s.SetAbsent(procstats.TreeIOStored, reasonLost)
	default:
		s.SetNumber(procstats.TreeIOStored, float64(o.stored))
	}
}

// Close implements Source.
func (o *ioSource) Close() error { return errors.Join(o.unwritten.Close(), o.processSource.Close()) }

const reasonLost = "a process ignores SIGCHLD: what its children wrote and deleted is not known"

func reasonMissed(processes int64) string {
	return procstats.Counted(processes, "process", "processes") + " ended before their io could be read"
}

func (o *ioSource) continueFrom(earlier *procstats.Sample) {
	for i, id := range ioTreeIDs {
		number, _ := earlier.Task.Number(id)
		o.most[i] = max(o.most[i], int64(number))
	}
	stored, _ := earlier.Task.Get(procstats.TreeIOStored)
	bytes, _ := stored.Number()
	o.stored = max(o.stored, int64(bytes))
	if stored.Reason() == reasonLost {
		o.members.lost = true // the process may have ended since
	}
}

// rankOfIO is what a process has transferred since the sample before.
func rankOfIO(p *process) (rank [2]int64) {
	for i := range p.io.now {
		rank[0] += p.io.now[i] - p.io.before[i]
	}
	return rank
}

func readingOfIO(id procstats.ID, p *process) procstats.Reading {
	if reason := p.io.fault.reason; reason != "" {
		return procstats.AbsentReading(id, reason)
	}
	return procstats.NumberReading(id, float64(p.io.now[slices.Index(ioProcessIDs[:], id)]))
}
