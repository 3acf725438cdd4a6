// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package budget

import (
	"strings"
	"testing"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// runOf returns a record of a run with a memory peak.
func runOf(peak float64, g procstats.Guarantee) *record.Record {
	wall := 12.5
	return &record.Record{
		State: record.Exited, WallSeconds: &wall,
		Headline: map[string]record.HeadlineValue{
			"memory_peak_bytes": {Value: &peak, Guarantee: g},
			"cpu_seconds_total": {Reason: "no source"},
		},
		Measurements: map[string]any{"cgroup_cpu_periods_total": 7.0, "tree_rss_bytes": 100.0},
		Absent:       map[string]string{"cgroup_pids_current": "no pids controller"},
	}
}

func TestCondition(t *testing.T) {
	const exact, low, high = procstats.Exact, procstats.LowerBound, procstats.UpperBound
	for _, test := range []struct {
		condition string
		peak      float64
		guarantee procstats.Guarantee
		failed    bool
		reason    string
	}{
		{"memory_peak > 400M", 400 << 20, exact, false, "it is 400 MiB"},
		{"memory_peak > 400M", 400<<20 + 1, exact, true, "it is 400 MiB (+1 B)"},
		{"memory_peak >= 400M", 400 << 20, exact, true, "it is 400 MiB"},
		{"memory_peak_bytes<1K", 1023, exact, true, "it is 1023 B"},
		{"memory_peak <= 1K", 1025, exact, false, "it is 1 KiB (+1 B)"},
		{"memory_peak > 400M", 500 << 20, procstats.Sampled, true, "it is 500 MiB"},
		// A lower bound above the limit decides, one below it does not.
		{"memory_peak > 400M", 500 << 20, low, true, "it is at least 500 MiB"},
		{"memory_peak > 400M", 300 << 20, low, true, "it is at least 300 MiB, which does not decide"},
		{"memory_peak < 400M", 500 << 20, low, false, "it is at least 500 MiB"},
		{"memory_peak < 400M", 300 << 20, low, true, "it is at least 300 MiB, which does not decide"},
		{"memory_peak > 400M", 300 << 20, high, false, "it is at most 300 MiB"},
		{"memory_peak > 400M", 500 << 20, high, true, "it is at most 500 MiB, which does not decide"},
		{"memory_peak < 400M", 300 << 20, high, true, "it is at most 300 MiB"},
		// What was not measured fails with the reason.
		{"cpu_seconds > 30", 1, exact, true, "not measured: no source"},
		{"cgroup_pids_current > 1", 1, exact, true, "not measured: no pids controller"},
		{"psi_cpu_some > 1m", 1, exact, true, "not measured: not recorded"},
		{"cgroup_cpu_periods > 7", 1, exact, false, "it is 7"},
		{"wall > 10s", 1, exact, true, "it is 12.5 s"},
		{"wall_seconds > 12.5", 1, exact, false, "it is 12.5 s"},
	} {
		c, err := Parse(test.condition)
		if err != nil {
			t.Errorf("%s: %v", test.condition, err)
			continue
		}
		if got := c.Check(runOf(test.peak, test.guarantee)); got.Failed != test.failed || got.Reason != test.reason || (Report([]Result{got}, func(error) {}) != nil) != test.failed {
			t.Errorf("%s of %v (%s): %+v, want %v, %q", test.condition, test.peak, test.guarantee, got, test.failed, test.reason)
		}
	}
	walked := &record.Record{
		State: record.Exited, Measurements: map[string]any{"disk_files": 5.0},
		Sampling: record.Sampling{Guarantees: map[string]procstats.Guarantee{"disk_files": low}},
	}
	for condition, failed := range map[string]bool{"disk_files > 4": true, "disk_files > 6": true, "disk_files < 4": false} {
		if got := testkit.Value(Parse(condition))(t).Check(walked); got.Failed != failed {
			t.Errorf("%s of at least 5: %+v", condition, got)
		}
	}
	c := testkit.Value(Parse("wall < 1h"))(t)
	if got := c.Check(&record.Record{State: record.Lost}); !got.Failed || !strings.HasPrefix(got.Reason, "the run is lost") {
		t.Errorf("a lost run: %+v", got)
	}
}

func TestIncrease(t *testing.T) {
	type side struct {
		peak float64
		g    procstats.Guarantee
	}
	exact := func(peak float64) side { return side{peak, procstats.Exact} }
	for _, test := range []struct {
		most   string
		a, b   side
		failed bool
		reason string
	}{
		{"memory_peak=10%", exact(100 << 20), exact(110 << 20), false, "from 100 MiB to 110 MiB (+10 %)"},
		{"memory_peak=10%", exact(100 << 20), exact(111 << 20), true, "from 100 MiB to 111 MiB (+11 %)"},
		{"memory_peak=10M", exact(100 << 20), exact(111 << 20), true, "from 100 MiB to 111 MiB (+11 %)"},
		{"memory_peak=0%", exact(100 << 20), exact(50 << 20), false, "from 100 MiB to 50 MiB (-50 %)"},
		{"memory_peak=10%", exact(0), exact(1), true, "from 0 B to 1 B"},
		{"memory_peak=10%", exact(100), side{200, procstats.LowerBound}, true, "from 100 B to at least 200 B"},
		{"memory_peak=10%", exact(200), side{100, procstats.LowerBound}, true, "from 200 B to at least 100 B, which does not decide"},
		{"memory_peak=10%", exact(200), side{100, procstats.UpperBound}, false, "from 200 B to at most 100 B"},
		{"memory_peak=10%", side{200, procstats.LowerBound}, exact(100), false, "from at least 200 B to 100 B"},
		{"memory_peak=10%", side{100, procstats.LowerBound}, exact(200), true, "from at least 100 B to 200 B, which does not decide"},
		{"memory_peak=10%", side{100, procstats.UpperBound}, exact(200), true, "from at most 100 B to 200 B"},
		{"cpu_seconds=1", exact(1), exact(1), true, "not measured: no source"},
	} {
		i, err := ParseIncrease(test.most)
		if err != nil {
			t.Errorf("%s: %v", test.most, err)
			continue
		}
		if got := i.Check(runOf(test.a.peak, test.a.g), runOf(test.b.peak, test.b.g)); got.Failed != test.failed || got.Reason != test.reason {
			t.Errorf("%s, %v, %v: %+v, want %v, %q", test.most, test.a, test.b, got, test.failed, test.reason)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "must be MEASUREMENT > VALUE",
		"memory_peak":            "must be MEASUREMENT > VALUE",
		"memory_peek > 1":        `unknown measurement "memory_peek"`,
		"> 1":                    "unknown measurement",
		"memory_peak > ":         "must be a number of bytes",
		"memory_peak >> 4":       "must be a number of bytes",
		"memory_peak > 10s":      "must be a number of bytes",
		"cpu_seconds > 4M":       "must be a time",
		"cpu_cores_average > x":  "must be a number such as 0.5",
		"cgroup_cpu_periods > x": "must be a number",
		"process_rss > 1M":       "process_rss_bytes is measured of each process, not of a run",
	} {
		if c, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, c, err, want)
		}
	}
	share := func(name string) (procstats.Measurement, error) {
		return procstats.Measurement{Name: name, Unit: procstats.Share}, nil
	}
	if c, err := ParseOf("wasted_memory > 20", share); err == nil || !strings.Contains(err.Error(), "did you mean 20%?") {
		t.Errorf("a share of 20: %v, %v", c, err)
	}
	if _, err := ParseOf("missing_cpu > 120%", share); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"memory_peak", "memory_peak=", "memory_peak=x%", "memory_peak=-1%", "peak=1%"} {
		if i, err := ParseIncrease(text); err == nil {
			t.Errorf("%q: %v", text, i)
		}
	}
}
