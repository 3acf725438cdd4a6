// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/errlist"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// Collector reads all sources that a selection needs, in an order in which totals come before the rows that
// are compared with them. It is used by one goroutine at a time; a Cache sees to that.
type Collector struct {
	sel     procstats.Selection
	sources []Source
	ids     []procstats.ID // the selected measurements of the task as a whole
}

// Open opens the sources that a selection needs for a task, our own readers on Linux and the portable one
// elsewhere; more are read after them. A source that does not work here is opened all the same: it says why.
func Open(t Target, sel procstats.Selection, more ...Source) *Collector {
	return NewCollector(sel, append(openSources(t, sel), more...)...)
}

// NewCollector returns a collector over the given sources, read in the given order.
func NewCollector(sel procstats.Selection, sources ...Source) *Collector {
	c := &Collector{sel: sel, sources: sources}
	for _, id := range sel.IDs() {
		if m, _ := procstats.Lookup(id); m.Scope == procstats.TaskScope {
			c.ids = append(c.ids, id)
		}
	}
	return c
}

// Selection returns what was selected.
func (c *Collector) Selection() procstats.Selection { return c.sel }

// Collect reads every source into a sample, whose earlier contents are lost and whose memory is used again.
// Each selected measurement of the task is in it afterwards, with a value or with a reason.
func (c *Collector) Collect(into *procstats.Sample) {
	into.Reset()
	into.Stamp = kernel.Now()
	c.CollectMore(into)
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

// CollectMore adds what this collector reads to a sample that another one has filled: rows to totals.
func (c *Collector) CollectMore(into *procstats.Sample) {
	for _, source := range c.sources {
		source.Collect(into)
	}
	c.putMissing(into)
}

// putMissing gives a reason for what no source has read.
func (c *Collector) putMissing(into *procstats.Sample) {
	for _, id := range c.ids {
		if _, found := into.Task.Get(id); !found {
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

// LostChildren reports whether CPU time of the task was lost where no counter has it: see Tree.LostChildren.
func (c *Collector) LostChildren() bool {
	for _, source := range c.sources {
		if tree, ok := source.(*Tree); ok && tree.LostChildren() {
			return true
		}
	}
	return false
}

// Close closes every source and returns their errors, joined.
func (c *Collector) Close() error {
	var errs []error
	for _, source := range c.sources {
		errs = append(errs, source.Close())
	}
	return errlist.Join(errs...)
}
