// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// TestRateIsWithoutLateTime leaves CPU time out that was used before it was seen, where no cgroup counts it.
func TestRateIsWithoutLateTime(t *testing.T) {
	c := newCondenser()
	at := func(seconds, cpu float64, more map[procstats.ID]float64) moment {
		values := map[procstats.ID]float64{procstats.TreeCPU: cpu}
		maps.Copy(values, more)
		return c.point(series.Point{Run: 1, Values: values, Stamp: procstats.Stamp{Mono: time.Duration(seconds * 1e9), Wall: time.Unix(int64(seconds), 0)}})
	}
	late := func(seconds float64) map[procstats.ID]float64 {
		return map[procstats.ID]float64{procstats.TreeCPULate: seconds}
	}
	for name, test := range map[string]struct {
		before, now map[procstats.ID]float64
		want        float64
	}{
		"none is known": {nil, nil, 4},
		"some is late":  {late(0), late(6), 1},
		"all is late":   {late(0), late(9), 0},
		"in a cgroup": {
			map[procstats.ID]float64{procstats.TreeCPULate: 0, procstats.CgroupCPUUsage: 1},
			map[procstats.ID]float64{procstats.TreeCPULate: 6, procstats.CgroupCPUUsage: 9},
			4,
		},
	} {
		before, now := at(10, 1, test.before), at(12, 9, test.now)
		if got := now.rate(&before, cpuSeconds); got != test.want {
			t.Errorf("%s: %v cores, want %v", name, got, test.want)
		}
	}
}

// TestThinnedKeepsPeaks draws a peak of one second among others, and neither over a restart nor over a gap.
func TestThinnedKeepsPeaks(t *testing.T) {
	at := func(second int, run int, memory float64) moment {
		m := moment{Stamp: procstats.Stamp{Wall: time.Unix(1_000_000+int64(second), 0)}, run: run}
		for q := range m.values {
			m.values[q] = math.NaN()
		}
		m.values[memoryNeeded], m.values[cpuSeconds] = memory, float64(second)
		return m
	}
	gap := moment{Stamp: at(15, 2, 0).Stamp, run: 2, gap: series.GapSilent}
	got := thinned([]moment{
		at(0, 1, 100), at(1, 1, 900), at(2, 1, math.NaN()), at(4, 1, 100), // a step of five seconds
		at(5, 1, 100), at(6, 1, 300), at(7, 2, 200), // the task was started again
		at(11, 2, 50), gap, at(16, 2, 40),
	}, 5*time.Second)
	var text []string
	for _, m := range got {
		text = append(text, fmt.Sprint(m.Wall.Unix()-1_000_000, m.run, m.gap, m.values[memoryNeeded], m.values[cpuSeconds]))
	}
	none := fmt.Sprint(series.NoGap)
	want := []string{
		"4 1 " + none + " 900 4", "6 1 " + none + " 300 6", "7 2 " + none + " 200 7", "11 2 " + none + " 50 11",
		fmt.Sprint("15 2 ", series.GapSilent, " 0 0"), "16 2 " + none + " 40 16",
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
}
