// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Sentence says in one line how the task ended, what it used and what it was at before: "Failed with exit code 1;
// peak 203 MiB of 400 MiB (exact), 5m41s of CPU time, waited 12 % of the time for memory; 3.1 s before: 190 MiB, 0.98
// cores". What was not measured is not mentioned.
func (r *Record) Sentence() string {
	end := r.End()
	used := Join(", ", r.peakText(), r.cpuText(), r.waitText())
	return Join("; ", end.Summary, used, end.LastReading)
}

// Join joins what is not empty.
func Join(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// peakText is empty if an OOM kill says what the peak was.
func (r *Record) peakText() string {
	peak := r.Headline[procstats.HeadlineMemoryPeak.String()]
	kill := decisive(r.Diagnosis.OOM.Notices)
	if peak.Value == nil || kill != nil && kill.PeakBytes != nil {
		return ""
	}
	text := "peak " + procstats.Bytes.Text(*peak.Value)
	if limit, ok := r.measured(procstats.CgroupMemoryMax); ok {
		text += " of " + procstats.Bytes.Text(limit)
	}
	return text + " (" + strings.ReplaceAll(string(peak.Guarantee), "_", " ") + ")"
}

func (r *Record) cpuText() string {
	cpu := r.Headline[procstats.HeadlineCPU.String()]
	if cpu.Value == nil {
		return ""
	}
	return procstats.Seconds.Text(*cpu.Value) + " of CPU time"
}

// waitText names what the task waited for longest, from one percent of its time on.
func (r *Record) waitText() string {
	span, ok := r.Span()
	if !ok {
		return ""
	}
	longest, what := 0.01, ""
	for _, stall := range []struct {
		id   procstats.ID
		what string
	}{{procstats.PSIMemorySome, "memory"}, {procstats.PSIIOSome, "I/O"}, {procstats.PSICPUSome, "a CPU"}} {
		waited, ok := r.measured(stall.id)
		if share := waited / span; ok && share >= longest {
			longest, what = share, stall.what
		}
	}
	if what == "" {
		return ""
	}
	return "waited " + procstats.Share.Text(min(1, longest)) + " of the time for " + what
}

// FirstTime is how long a task is sampled at its first interval.
const FirstTime = time.Minute

// SamplingText says how often the task was sampled; empty if it was not.
func (r *Record) SamplingText() string {
	if r.Interval <= 0 {
		return ""
	}
	last := r.Interval
	text := "every " + procstats.Seconds.Text(last)
	if r.FirstInterval > 0 {
		first := procstats.Seconds.Text(r.FirstInterval)
		if span, known := r.Span(); known && span <= FirstTime.Seconds() {
			last, text = r.FirstInterval, "every "+first
		} else {
			text = "every " + first + " in the first minute, then " + text
		}
	}
	// The sampling budget stretches intervals.
	if now, measured := r.measured(procstats.ExecutorInterval); measured && now > last {
		text += ", at the end every " + procstats.Seconds.Text(now)
	}
	return text
}
