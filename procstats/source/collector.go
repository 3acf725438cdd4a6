// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"sync"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Collector reads all sources that a selection needs, in an order in which the rows of processes come before the totals
// that they are held against. It is used by one goroutine at a time; a Cache sees to that.
type Collector struct {
	sel     procstats.Selection
	sources []Source
	ids     []procstats.ID // the selected measurements of the task as a whole
	own     *Shared        // nil if the sources share it with those of other tasks
}

// Open opens the sources that a selection needs for a task, our own readers on Linux and the portable one
// elsewhere; more are read after them. A source that does not work here is opened all the same: it says why.
func Open(t Target, sel procstats.Selection, more ...Source) *Collector {
	var own *Shared
	if t.Shared == nil {
		own = &Shared{}
		t.Shared = own
	}
	c := NewCollector(sel, append(openSources(t, sel), more...)...)
	c.own = own
	return c
}

// openSources opens what a selection needs, in the order of reading: what is read of every process before the cgroup, so
// that the rows never have more than the total that they are held against; the slower files of the processes after that,
// because the gap between the two has to stay small; last what has a slow clock of its own.
func openSources(t Target, sel procstats.Selection) []Source {
	var sources []Source
	add := func(id procstats.SourceID, open func() Source) {
		if sel.HasSource(id) {
			sources = append(sources, open())
		}
	}
	members := sync.OnceValue(func() *Members { return NewMembers(t) }) // not of a collector that reads no process
	add(procstats.SourceRusage, func() Source { return OpenRusage(t, sel) })
	add(procstats.SourceTree, func() Source { return OpenTree(t, sel, members()) })
	add(procstats.SourceCgroup, func() Source { return OpenCgroup(t, sel) })
	add(procstats.SourcePSI, func() Source { return OpenPSI(t, sel) })
	add(procstats.SourceHugetlb, func() Source { return OpenHugetlb(t, sel, members) })
	add(procstats.SourceIO, func() Source { return OpenIO(t, sel, members()) })
	add(procstats.SourceSmaps, func() Source { return OpenSmaps(t, sel, members(), SmapsLimits{}) })
	add(procstats.SourcePortable, func() Source { return OpenPortable(t, sel) })
	add(procstats.SourceDisk, func() Source { return OpenDisk(t, sel) })
	return sources
}

// NewCollector returns a collector over the given sources, read in the given order.
func NewCollector(sel procstats.Selection, sources ...Source) *Collector {
	c := &Collector{sel: sel, sources: sources}
	c.ids = procstats.SelectWhere(func(m procstats.Measurement) bool { return m.Scope == procstats.TaskScope && sel.Has(m.ID) }).IDs()
	return c
}

// Selection returns what was selected.
func (c *Collector) Selection() procstats.Selection { return c.sel }

// Collect reads every source into a sample, whose earlier contents are lost and whose memory is used again.
// Each selected measurement of the task is in it afterwards, with a value or with a reason.
func (c *Collector) Collect(into *procstats.Sample) {
	CollectAll(into, c)
}

// CollectAll reads several collectors into one sample: rows first, then the totals that they are held against.
func CollectAll(into *procstats.Sample, collectors ...*Collector) {
	into.Reset()
	into.Stamp = kernel.Now()
	for _, c := range collectors {
		for _, source := range c.sources {
			source.Collect(into)
		}
	}
	for _, c := range collectors {
		for _, source := range c.sources {
			if tree, ok := source.(*Tree); ok {
				tree.closeSum(into)
			}
		}
		c.putMissing(into)
	}
}

// Reopen gives up the descriptors of files that Quiet does not watch: from now on they are opened for each read, and
// of those of processes no more than one stays open. The caller holds what the sources share.
func (c *Collector) Reopen() {
	for _, source := range c.sources {
		if s, ok := source.(interface{ reopenFiles() }); ok {
			s.reopenFiles()
		}
	}
}

// CollectBefore reads what the counters of a task start from that has not started yet. Its folder is not walked: the next
// walk would be an interval later, and until then the size from before the start would be the task's.
func (c *Collector) CollectBefore(into *procstats.Sample) {
	into.Reset()
	into.Stamp = kernel.Now()
	for _, source := range c.sources {
		if _, walks := source.(*diskSource); !walks {
			source.Collect(into)
		}
	}
	c.putMissing(into)
}

// putMissing gives a reason for what no source has read.
func (c *Collector) putMissing(into *procstats.Sample) {
	at := 0 // both lists are in the order of the table
	for _, id := range c.ids {
		for at < len(into.Task) && into.Task[at].ID() < id {
			at++
		}
		if at == len(into.Task) || into.Task[at].ID() != id {
			into.SetAbsent(id, procstats.ReasonNoSource)
		}
	}
}

// Describe says of each source whether it works here, in the order of reading.
func (c *Collector) Describe() []procstats.SourceDescription {
	var list []procstats.SourceDescription
	for _, source := range c.sources {
		list = append(list, source.Describe())
	}
	return list
}

// Unavailable collects once and returns the measurements of sel that cannot be read here, each with the
// reason. A limit that is not set is not unavailable. What has a value only later (before there is a process, a
// walk that has not come round, a child that was reaped) is judged by whether its source works.
func (c *Collector) Unavailable(sel procstats.Selection) []procstats.Reading {
	var s procstats.Sample
	c.Collect(&s)
	var list []procstats.Reading
	for _, id := range sel.IDs() {
		m, _ := procstats.Lookup(id)
		if reason, gone := c.unavailable(&s, m); gone {
			list = append(list, procstats.AbsentReading(id, reason))
		}
	}
	return list
}

func (c *Collector) unavailable(s *procstats.Sample, m procstats.Measurement) (reason string, unavailable bool) {
	if !c.sel.Has(m.ID) {
		return "not selected", true
	}
	if m.Scope == procstats.TaskScope && readAtOnce(m.Source) {
		r, _ := s.Task.Get(m.ID)
		return r.Reason(), !r.Present() && r.Reason() != procstats.ReasonNoLimit
	}
	reason, works := c.sourceWorks(m.Source)
	if !works || m.Scope == procstats.TaskScope || m.Source == procstats.SourceSmaps {
		return reason, !works
	}
	for i := range s.Processes {
		r, found := s.Processes[i].Readings.Get(m.ID)
		if r.Present() {
			return "", false
		}
		if reason = procstats.ReasonNoSource; found {
			reason = r.Reason()
		}
	}
	return reason, len(s.Processes) > 0
}

// readAtOnce reports whether the first collection shows what a source can read. The others wait for a process of
// the task, or for their own slow clock.
func readAtOnce(source procstats.SourceID) bool {
	return source == procstats.SourceCgroup || source == procstats.SourcePSI || source == procstats.SourceExecutor
}

func (c *Collector) sourceWorks(id procstats.SourceID) (reason string, works bool) {
	for _, source := range c.sources {
		if d := source.Describe(); d.ID == id {
			return d.Reason, d.Available
		}
	}
	return procstats.ReasonNoSource, false
}

// Before returns what the counters of the task's cgroup began at, for a Target of another reader.
func (c *Collector) Before() map[procstats.ID]float64 {
	before := make(map[procstats.ID]float64)
	for _, source := range c.sources {
		if r, ok := source.(*cgroupReader); ok {
			r.addBefore(before)
		}
	}
	return before
}

// ContinueFrom makes the counters that are kept here, and not by the kernel, at least what they were in an earlier sample: one
// of another reader of the task. Of its processes, those count as exited that alive says are gone.
func (c *Collector) ContinueFrom(earlier *procstats.Sample, alive func(procstats.ProcessID) bool) {
	for _, source := range c.sources {
		if s, ok := source.(continued); ok {
			s.continueFrom(earlier, alive)
		}
	}
}

// continued is a source that keeps counters.
type continued interface {
	continueFrom(earlier *procstats.Sample, alive func(procstats.ProcessID) bool)
}

// LostChildren reports whether CPU time of the task was lost where no counter has it: see Tree.LostChildren.
func (c *Collector) LostChildren() bool {
	for _, source := range c.sources {
		if tree, ok := source.(*Tree); ok && tree.LostChildren() {
			return true
		}
	}
	return false
}

// CPUThrottler returns the path, within its hierarchy, of the cgroup above the task's whose CPU quota throttled most so far;
// empty if none did.
func (c *Collector) CPUThrottler() string {
	for _, source := range c.sources {
		if reader, ok := source.(*cgroupReader); ok && reader.quotas != nil {
			return reader.quotas.throttler()
		}
	}
	return ""
}

// Outside returns the first processes of the task that were seen outside its cgroup.
func (c *Collector) Outside() []procstats.ProcessID {
	for _, source := range c.sources {
		if tree, ok := source.(*Tree); ok {
			return tree.Outside()
		}
	}
	return nil
}

// Close closes every source and returns their errors, joined.
func (c *Collector) Close() error {
	var errs []error
	for _, source := range c.sources {
		errs = append(errs, source.Close())
	}
	errs = append(errs, c.own.Close())
	return errors.Join(errs...)
}

// Split returns what of a selection the totals of a task need, and what is left for readers who want process rows too. Without
// a cgroup that accounts memory the totals come from the processes, and one reader must see both: nothing is left then. The same holds if
// proportional memory is selected, because whoever selects it wants it among the totals.
func Split(t Target, sel procstats.Selection) (totals, rows procstats.Selection) {
	if !t.Cgroup.Encloses() || !chargesMemory(t.Cgroup) || sel.HasSource(procstats.SourceSmaps) {
		return sel, procstats.Selection{}
	}
	totals = sel.Minus(procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Scope == procstats.ProcessScope || m.Source == procstats.SourceTree || m.Source == procstats.SourceIO
	}))
	return totals, sel.Minus(totals)
}

// Only returns of a whole sample what a reader of a selection of totals always gets: a stream that had more in it now and then
// would have headlines that jump from one source to another.
func Only(whole *procstats.Sample, selection procstats.Selection) *procstats.Sample {
	totals := *whole
	totals.Task, totals.Processes, totals.Omitted = nil, nil, 0
	for _, reading := range whole.Task {
		if selection.Has(reading.ID()) {
			totals.Task.Put(reading)
		}
	}
	return &totals
}
