// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"maps"
	"testing"
	"time"

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
