// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// SetCommands adds to the record of an ended task what another process has counted; nil if none has.
func (r *Record) SetCommands(c *Commands) {
	if c == nil {
		return
	}
	r.holdAgainst(c)
	total := r.Headline[procstats.HeadlineCPU.String()].Value
	if r.Processes != nil && r.Processes.TotalCPUSeconds != nil {
		total = r.Processes.TotalCPUSeconds
	}
	c.CloseWith(total)
	if r.Commands = c; r.Processes != nil {
		r.Processes.close(c)
	}
	r.setSource(Source{Name: exitsSource, Available: c.Reason == "", Reason: c.Reason})
}

const exitsSource = "exits"

// setSource replaces what the executor said of a source.
func (r *Record) setSource(s Source) {
	r.Sources = slices.DeleteFunc(r.Sources, func(other Source) bool { return other.Name == s.Name })
	r.Sources = append(r.Sources, s)
}

// holdAgainst corrects a record that was made without the commands.
func (r *Record) holdAgainst(c *Commands) {
	s := &procstats.Sample{}
	for name, value := range r.Measurements {
		m, known := procstats.LookupName(name)
		if number, ok := value.(float64); known && ok {
			s.SetNumber(m.ID, number)
		}
	}
	before, counted := cpuTotal(s)
	s = WithExits(s, c)
	after, _ := cpuTotal(s)
	if _, known := s.Task.Number(procstats.ExitsCPU); !known || !counted {
		return
	}
	present, _ := Values(s.Task)
	maps.Copy(r.Measurements, present)
	if p := r.Processes; p != nil && p.TotalCPUSeconds != nil && p.UnattributedCPUSeconds != nil {
		*p.TotalCPUSeconds, *p.UnattributedCPUSeconds = after, *p.UnattributedCPUSeconds+after-before
	}
	corrected := Headlines(procstats.Headlines(s, r.endedAt(c.LastEnd, s)))
	for _, id := range [...]procstats.ID{
		procstats.HeadlineCPU, procstats.HeadlineCoresAverage,
		procstats.HeadlineIORead, procstats.HeadlineIOWrite, procstats.HeadlineIOHanded,
	} {
		if h, given := corrected[id.String()]; given && h.Value != nil {
			r.Headline[id.String()] = h
		}
	}
	if c.LeftProcesses == 0 {
		return
	}
	for _, id := range [...]procstats.ID{
		procstats.HeadlineMemory, procstats.HeadlineMemoryCharged, procstats.HeadlineMemoryPeak,
		procstats.HeadlineIORead, procstats.HeadlineIOWrite,
	} {
		if h := r.Headline[id.String()]; h.Guarantee == procstats.Exact {
			h.Guarantee, h.Notes = procstats.LowerBound, corrected[id.String()].Notes
			r.Headline[id.String()] = h
		}
	}
}

// endedAt corrects the span of a record by when the last process ended, if that is known.
func (r *Record) endedAt(last time.Time, totals *procstats.Sample) procstats.History {
	history := procstats.History{Ended: true}
	if r.SpanSeconds == nil || r.WallSeconds == nil {
		return history
	}
	seconds := func(s *float64) time.Duration { return time.Duration(*s * float64(time.Second)) }
	e := Evidence{EndedAt: r.EndedAt, Wall: seconds(r.WallSeconds), Span: seconds(r.SpanSeconds)}
	history.EndKnown = e.EndAt(last, totals)
	history.Elapsed, r.SpanSeconds = e.Span, new(e.Span.Seconds())
	return history
}

// WithExits returns the last sample of a task with what its ended processes have used by their own accounts, which
// can be more than its cgroup has counted; what closes the sum of the rows is corrected.
func WithExits(final *procstats.Sample, c *Commands) *procstats.Sample {
	joined, asked := final.Task.Get(procstats.TreeJoined) // absent if the task was not started here
	if none, _ := joined.Number(); c == nil || c.Reason != "" || asked && (!joined.Present() || none > 0) {
		return final
	}
	s := final.Clone()
	before, _ := cpuTotal(s)
	_, cpu := c.sum()
	s.SetNumber(procstats.ExitsCPU, cpu)
	s.SetNumber(procstats.ExitsLeft, float64(c.LeftProcesses))
	if read, written, all := c.io(); all {
		s.SetNumber(procstats.ExitsIORead, float64(read))
		s.SetNumber(procstats.ExitsIOWrite, float64(written))
	}
	if after, _ := cpuTotal(s); after != before {
		for _, id := range [...]procstats.ID{procstats.TreeCPUUnattributed, procstats.TreeCPUAtRows} {
			if was, known := s.Task.Number(id); known {
				s.SetNumber(id, was+after-before)
			}
		}
	}
	return s
}

// NotSampled is why neither packets nor exits were counted of a task whose caller does that while it samples.
const NotSampled = notPublished + ", or over before the first sample)"

// notPublished begins what executors say, of older builds too.
const notPublished = "not counted (publishing off"

// SetUncounted says why the caller of a task's executor has counted neither packets nor exits: it has not sampled the
// task.
func (r *Record) SetUncounted(reason string) {
	if r.Commands == nil {
		r.SetCommands(&Commands{Rows: []procstats.Command{}, Reason: reason})
	}
	var s procstats.Sample
	for name, text := range r.Absent {
		if m, _ := procstats.LookupName(name); m.Source == procstats.SourceSkb && strings.HasPrefix(text, notPublished) {
			s.SetAbsent(m.ID, reason)
		}
	}
	r.SetNetwork(&s, procstats.SourceDescription{ID: procstats.SourceSkb, Reason: reason})
}

// SetNetwork adds to the record of an ended task the packets that another process has counted, in a sample of nothing
// else; nil if none has.
func (r *Record) SetNetwork(s *procstats.Sample, source procstats.SourceDescription) {
	if s == nil || len(s.Task) == 0 {
		return
	}
	present, absent := Values(s.Task)
	for name, value := range present {
		r.Measurements[name] = value
		delete(r.Absent, name)
	}
	for name := range absent {
		delete(r.Measurements, name)
	}
	maps.Copy(r.Absent, absent)
	maps.Copy(r.Headline, Headlines(procstats.NetworkHeadlines(s)))
	r.setSource(SourcesOf([]procstats.SourceDescription{source})[0])
}
