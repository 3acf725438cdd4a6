// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"iter"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// FillFromReports completes a record without an end, of a run that is lost or goes on, from the lines of its
// usage.jsonl, as far as they go: AsOf is set to the end of the last one. Without a line that can be read, and where
// the record has its numbers already, it stays as it is.
func (r *Record) FillFromReports(reports iter.Seq2[*Usage, error]) {
	if r.State == Exited || r.Samples > 0 {
		return
	}
	var u unfinished
	for report, err := range reports {
		if err == nil { // a line that cannot be read leaves a gap in the file, and none in what the last one says
			u.add(report)
		}
	}
	if u.last == nil {
		return
	}
	sample := sampleOf(u.last)
	r.AsOf, r.Samples = u.last.To, u.samples
	// Not by the time of day, but for the moment before the first line: the clock may have been set, or the machine
	// suspended.
	span := u.last.ToMono - u.first.FromMono + u.first.From.Sub(r.StartedAt).Seconds()
	if span > 0 {
		r.SpanSeconds = &span
	}
	r.Measurements, r.Absent = Values(sample.Task)
	r.Headline = Headlines(procstats.Headlines(sample, procstats.History{
		Previous: u.began, Elapsed: time.Duration(span * float64(time.Second)), Largest: u.largest,
	}))
	// What only grows is at least this by now. An upper bound is one of the time until then only.
	for _, id := range []procstats.ID{
		procstats.HeadlineCPU, procstats.HeadlineMemoryPeak, procstats.HeadlineIORead, procstats.HeadlineIOWrite,
		procstats.HeadlineIOHanded, procstats.HeadlineNetworkReceived, procstats.HeadlineNetworkSent,
	} {
		if h := r.Headline[id.String()]; h.Value != nil {
			if h.Guarantee == procstats.Exact {
				h.Guarantee = procstats.LowerBound
			}
			h.Reason = "until the last report, at " + r.AsOf.Format(time.RFC3339)
			r.Headline[id.String()] = h
		}
	}
}

// unfinished is what is kept of the lines of a usage.jsonl, however many there are.
type unfinished struct {
	samples int64
	last    *Usage
	// began has the counters at the beginning of the first line.
	first   *Usage
	began   *procstats.Sample
	largest procstats.Largest
}

func (u *unfinished) add(report *Usage) {
	u.samples += report.Samples
	u.last = report
	if u.began == nil {
		u.first, u.began = report, beginOf(report)
	}
	u.largest.Add(largestOf(report))
}

// largestOf returns the largest readings in a line.
func largestOf(report *Usage) *procstats.Sample {
	s := &procstats.Sample{}
	for name, reduced := range report.Measurements {
		if m, known := procstats.LookupName(name); known && reduced.Max != nil {
			s.SetNumber(m.ID, *reduced.Max)
		}
	}
	return s
}

// beginOf returns the counters at the beginning of a line.
func beginOf(report *Usage) *procstats.Sample {
	s := &procstats.Sample{Stamp: stampOf(report.From, report.FromMono)}
	for name, reduced := range report.Measurements {
		if m, known := procstats.LookupName(name); known && reduced.Last != nil && reduced.Delta != nil {
			s.Task.Put(procstats.NumberReading(m.ID, *reduced.Last-*reduced.Delta))
		}
	}
	return s
}

// sampleOf returns the last readings of a line.
func sampleOf(report *Usage) *procstats.Sample {
	s := &procstats.Sample{Stamp: stampOf(report.To, report.ToMono)}
	for name, reduced := range report.Measurements {
		m, known := procstats.LookupName(name)
		switch {
		case !known || m.Scope != procstats.TaskScope:
		case reduced.Text != nil:
			s.Task.Put(procstats.TextReading(m.ID, *reduced.Text))
		case reduced.Last != nil:
			s.Task.Put(procstats.NumberReading(m.ID, *reduced.Last))
		}
	}
	for name, reason := range report.Absent {
		if m, known := procstats.LookupName(name); known && m.Scope == procstats.TaskScope {
			s.Task.Put(procstats.AbsentReading(m.ID, reason))
		}
	}
	return s
}

func stampOf(wall time.Time, mono float64) procstats.Stamp {
	return procstats.Stamp{Wall: wall, Mono: time.Duration(mono * float64(time.Second))}
}
