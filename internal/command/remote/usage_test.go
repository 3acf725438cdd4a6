// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"testing"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func point(at float64, run int, values map[procstats.ID]float64) *apijson.Point {
	p := &apijson.Point{Mono: at, Run: run, Measurements: map[string]float64{}}
	for id, value := range values {
		p.Measurements[id.String()] = value
	}
	return p
}

func TestUsageHasRatesOfTheSameStart(t *testing.T) {
	before := point(100, 1, map[procstats.ID]float64{
		procstats.CgroupCPUUsage: 1, procstats.PSICPUSome: 2,
		procstats.CgroupIORead: 0,
	})
	for _, test := range []struct {
		name                  string
		now                   *apijson.Point
		cores, pressure, read *float64
	}{
		{"two seconds later", point(102, 1,
			map[procstats.ID]float64{procstats.CgroupCPUUsage: 4, procstats.PSICPUSome: 3}), new(1.5), new(0.5), nil},
		{"after a restart", point(102, 2, map[procstats.ID]float64{procstats.CgroupCPUUsage: 4}), nil, nil, nil},
		{"a counter went down", point(102, 1,
			map[procstats.ID]float64{procstats.CgroupCPUUsage: 0.5, procstats.CgroupIORead: 8}), nil, nil, new(4.0)},
		{"at the same time", point(100, 1, map[procstats.ID]float64{procstats.CgroupCPUUsage: 4}), nil, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := usageOf(pointMoment(test.now), pointMoment(before))
			testkit.Diff(t, "result", []*float64{test.cores, test.pressure, test.read}, []*float64{f.Cores, f.CPUPressure, f.Read})
		})
	}
}

func TestPressureText(t *testing.T) {
	for _, test := range []struct {
		usage usage
		want  string
	}{
		{usage{}, procstats.NoValue},
		{usage{CPUPressure: new(0.0)}, "0 %"},
		{usage{CPUPressure: new(0.1), IOPressure: new(0.5)}, "50 % io"},
		{usage{MemoryPressure: new(1.02)}, "100 % memory"},
	} {
		testkit.Equal(t, pressureText(test.usage), test.want, "result")
	}
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		text  string
		n     int
		want  string
		whole bool
	}{
		{"a\nb\nc\n", 2, "b\nc\n", true},
		{"a\nb\nc", 2, "b\nc", true},
		{"a\nb\n", 5, "a\nb\n", false},
		{"a\nb\n", 2, "a\nb\n", false},
		{"a\n", 0, "", true},
		{"", 3, "", false},
		{"\n\n\n", 1, "\n", true},
	} {
		begin, whole := lastLines([]byte(test.text), test.n)
		if got := test.text[begin:]; got != test.want || whole != test.whole {
			t.Errorf("last %d of %q: %q, %v", test.n, test.text, got, whole)
		}
	}
}

func TestSparkText(t *testing.T) {
	testkit.Equal(t, sparkText([]*float64{new(0.0), nil, new(1.0), new(2.0)}, 6), "  ▁ ▅█", "result")
	testkit.Equal(t, sparkText([]*float64{new(9.0), new(0.01), new(0.05)}, 2), "▁▅", "little CPU is shown as little")
}

// TestSelected holds that what a task selects is shown, with the reason if it is absent, and nothing of other tasks.
func TestSelected(t *testing.T) {
	for name, test := range map[string]struct {
		sample client.Sample
		want   string
	}{
		"nothing": {client.Sample{Absent: map[string]string{"cgroup_memory_max_bytes": "no limit is set"}}, ""},
		"both": {
			client.Sample{
				Measurements: map[string]any{"disk_usage_bytes": float64(3 << 20), "disk_files": 2.0},
				Absent:       map[string]string{"smaps_pss_bytes": "processes were skipped (1 of 2)"},
			},
			"  smaps_pss_bytes       –  processes were skipped (1 of 2)\n  disk_usage_bytes  3 MiB\n  disk_files            2  at least\n",
		},
	} {
		page := usagePage{Sheet: &cli.Sheet{}}
		page.selected(&client.Reading{Sample: &test.sample, Guarantees: map[string]procstats.Guarantee{
			"disk_files": procstats.LowerBound,
		}})
		if got := page.String(); got != test.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, test.want)
		}
	}
}
