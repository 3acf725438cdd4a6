// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package repeat

import (
	"fmt"
	"math"
	"slices"

	"github.com/tachograph/tacho/procstats"
)

// judge fills in the verdicts of rows, of which the first are the durations of so many series. Single runs have none.
func judge(rows []Row, series int) {
	times := rows[:series]
	peaks := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Name == procstats.HeadlineMemoryPeak.String() }):]
	fastest := 0
	for i := range times {
		if s := times[i].Statistics; s != nil && (times[fastest].Statistics == nil || s.Mean < times[fastest].Mean) {
			fastest = i
		}
	}
	for i := range times {
		a, b := &times[fastest], &times[i]
		if i == fastest || b.Statistics == nil || a.StdDev == nil || b.StdDev == nil || a.Mean == 0 {
			continue
		}
		text := " is not measurably faster than " + b.Group + " (within noise)"
		if within, _ := withinNoise(a.estimate(), b.estimate()); !within { // both vary independently
			ratio := b.Mean / a.Mean
			deviation := ratio * math.Hypot(*a.StdDev/a.Mean, *b.StdDev/b.Mean)
			digits := int(min(4, max(0, -math.Floor(math.Log10(max(deviation, 0.01))))))
			text = fmt.Sprintf(" is %.*f ± %.*f times as fast as %s", digits, ratio, digits, deviation, b.Group)
		}
		b.Verdict = a.Group + text + memoryOf(&peaks[fastest], &peaks[i])
	}
}

// memoryOf says by how much the peak of a differs from that of b; nothing within noise, and of bounds, which may hide
// that.
func memoryOf(a, b *Row) string {
	if a.Statistics == nil || b.Statistics == nil || a.Guarantee != procstats.Exact || b.Guarantee != procstats.Exact {
		return ""
	}
	word := map[bool]string{true: "less", false: "more"}[a.Mean < b.Mean]
	if within, known := withinNoise(a.estimate(), b.estimate()); within || !known {
		return ""
	}
	return ", and uses " + procstats.Bytes.Text(math.Abs(a.Mean-b.Mean)) + " " + word + " memory at its peak"
}
