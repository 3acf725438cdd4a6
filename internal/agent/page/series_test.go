// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// TestThinnedKeepsPeaks draws a peak of one second among others, and neither over a restart nor over a gap.
func TestThinnedKeepsPeaks(t *testing.T) {
	at := func(second int, run int, memory float64) moment {
		p := series.Point{Stamp: procstats.Stamp{Wall: time.Unix(1_000_000+int64(second), 0)}, Run: run}
		p.Values = map[procstats.ID]float64{procstats.TreeMemory: memory, procstats.TreeCPU: float64(second)}
		if math.IsNaN(memory) {
			delete(p.Values, procstats.TreeMemory)
		}
		return momentOf(p)
	}
	gap := momentOf(series.Point{Stamp: at(15, 2, 0).Stamp, Run: 2, Gap: series.GapSilent})
	got := thinned([]moment{
		at(0, 1, 100), at(1, 1, 900), at(2, 1, math.NaN()), at(4, 1, 100), // a step of five seconds
		at(5, 1, 100), at(6, 1, 300), at(7, 2, 200), // the task was started again
		at(11, 2, 50), gap, at(16, 2, 40),
	}, 5*time.Second)
	var text []string
	for _, m := range got {
		text = append(text, fmt.Sprint(m.Wall.Unix()-1_000_000, m.Run, m.gap, m.Value(figures.Memory), m.Value(figures.CPU)))
	}
	none := fmt.Sprint(series.NoGap)
	want := []string{
		"4 1 " + none + " 900 4", "6 1 " + none + " 300 6", "7 2 " + none + " 200 7", "11 2 " + none + " 50 11",
		fmt.Sprint("15 2 ", series.GapSilent, " NaN NaN"), "16 2 " + none + " 40 16",
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
}
