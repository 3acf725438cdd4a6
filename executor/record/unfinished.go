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
	r.AsOf, r.Samples = u.last.To, u.samples
	// Not by the time of day, but for the moment before the first line: the clock may have been set, or the machine
	// suspended.
	span := u.last.ToMono - u.first.FromMono + u.first.From.Sub(r.StartedAt).Seconds()
	if span > 0 {
		r.SpanSeconds = &span
	}
	r.SetMeasured(u.sample)
	r.Headline = Headlines(procstats.Headlines(u.sample, procstats.History{
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
	sample  *procstats.Sample // the readings of last
	// began has the counters at the beginning of the first line.
	first   *Usage
	began   *procstats.Sample
	largest procstats.Largest
}

func (u *unfinished) add(report *Usage) {
	u.samples += report.Samples
	began, sample, largest := samplesOf(report)
	u.last, u.sample = report, sample
	if u.began == nil {
		u.first, u.began = report, began
	}
	u.largest.Add(largest)
}

// samplesOf returns the counters at the beginning of a line, its last readings, and its largest ones.
func samplesOf(report *Usage) (began, last, largest *procstats.Sample) {
	began, last = sampleAt(report.From, report.FromMono), sampleAt(report.To, report.ToMono)
	largest = &procstats.Sample{}
	for name, reduced := range report.Measurements {
		m, known := procstats.LookupName(name)
		if !known || m.Scope != procstats.TaskScope {
			continue
		}
		if reduced.Text != nil {
			last.Task.Put(procstats.TextReading(m.ID, *reduced.Text))
		} else if reduced.Last != nil {
			last.SetNumber(m.ID, *reduced.Last)
		}
		if reduced.Last != nil && reduced.Delta != nil {
			began.SetNumber(m.ID, *reduced.Last-*reduced.Delta)
		}
		if reduced.Max != nil {
			largest.SetNumber(m.ID, *reduced.Max)
		}
	}
	for name, reason := range report.Absent {
		if m, known := procstats.LookupName(name); known && m.Scope == procstats.TaskScope {
			last.SetAbsent(m.ID, reason)
		}
	}
	return began, last, largest
}

func sampleAt(wall time.Time, mono float64) *procstats.Sample {
	return &procstats.Sample{Stamp: procstats.Stamp{Wall: wall, Mono: time.Duration(mono * float64(time.Second))}}
}
