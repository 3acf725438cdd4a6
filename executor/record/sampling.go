// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

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
	if now, measured := r.Measurements[procstats.ExecutorInterval.String()].(float64); measured && now > last {
		text += ", at the end every " + procstats.Seconds.Text(now)
	}
	return text
}
