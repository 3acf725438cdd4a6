// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"math"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TestRateSince holds the rules of every rate in the product.
func TestRateSince(t *testing.T) {
	const second = time.Second
	type reading = procstats.CounterReading
	for _, test := range []struct {
		name             string
		before, now      reading
		growth, rate     float64
		noGrowth, noRate string
	}{
		{name: "a counter that grew", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 13, At: 7 * second}, growth: 3, rate: 1.5},
		{name: "one that did not", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 10, At: 7 * second}},
		{name: "from 0", before: reading{At: 0}, now: reading{Value: 1, At: second}, growth: 1, rate: 1},
		{
			name: "its source began anew", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 3, At: 7 * second},
			noGrowth: "the counter went down: its source started again",
		},
		{
			name: "it began anew and grew beyond", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 30, At: 7 * second, Run: 1},
			noGrowth: "the task was started again between the readings",
		},
		{
			name: "taken from something else", before: reading{Value: 10, At: 5 * second, Source: "tree_cpu_seconds_total"},
			now:      reading{Value: 12, At: 7 * second, Source: "cgroup_cpu_usage_seconds_total"},
			noGrowth: "taken from different measurements within the window",
		},
		{
			name: "a gap", before: reading{Value: math.NaN(), At: 5 * second}, now: reading{Value: 13, At: 7 * second},
			noGrowth: "not read in the window",
		},
		{
			name: "a gap now", before: reading{Value: 10, At: 5 * second}, now: reading{Value: math.NaN(), At: 7 * second},
			noGrowth: "not read in the window",
		},
		{
			name: "at the same time", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 13, At: 5 * second},
			noGrowth: "the clock did not advance between the readings",
		},
		{
			name: "the other way round", before: reading{Value: 10, At: 7 * second}, now: reading{Value: 13, At: 5 * second},
			noGrowth: "the clock did not advance between the readings",
		},
		{
			name: "too close", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 13, At: 5*second + 20*time.Millisecond - 1},
			growth: 3, noRate: "less than 20 ms between the readings",
		},
		{
			name: "just far enough", before: reading{Value: 10, At: 5 * second}, now: reading{Value: 13, At: 5*second + 20*time.Millisecond},
			growth: 3, rate: 150,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if growth, reason := test.now.GrowthSince(test.before); growth != test.growth || reason != test.noGrowth {
				t.Errorf("growth %g, %q; want %g, %q", growth, reason, test.growth, test.noGrowth)
			}
			if test.noRate == "" {
				test.noRate = test.noGrowth
			}
			if rate, reason := test.now.RateSince(test.before); math.Abs(rate-test.rate) > 1e-9 || reason != test.noRate {
				t.Errorf("rate %g, %q; want %g, %q", rate, reason, test.rate, test.noRate)
			}
		})
	}
}

// readAfter is a sample whose sources were read so long after it began.
func readAfter(at, sourceLater time.Duration, values map[procstats.ID]float64) *procstats.Sample {
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: noonOf(at)}}
	for id, value := range values {
		s.SetNumber(id, value)
		m, _ := procstats.Lookup(id)
		s.SetRead(m.Source, procstats.Stamp{Mono: at + sourceLater, Wall: noonOf(at + sourceLater)})
	}
	return s
}

func noonOf(at time.Duration) time.Time {
	return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(at)
}

func TestSampleRate(t *testing.T) {
	cpu := func(value float64) map[procstats.ID]float64 {
		return map[procstats.ID]float64{procstats.CgroupCPUUsage: value}
	}
	reread := readAfter(4*time.Second, 0, cpu(5))
	reread.SetRead(procstats.SourceCgroup, procstats.Stamp{Mono: 2 * time.Second, Wall: noonOf(2 * time.Second)})
	absent := readAfter(4*time.Second, 0, nil)
	absent.SetAbsent(procstats.CgroupCPUUsage, "permission denied")
	for _, test := range []struct {
		name        string
		before, now *procstats.Sample
		want        float64
		reason      string
	}{
		{"between the reads of the source", readAfter(2*time.Second, 0, cpu(3)), readAfter(4*time.Second, 2*time.Second, cpu(5)), 0.5, ""},
		{"nothing before", nil, readAfter(4*time.Second, 0, cpu(5)), 0, "only one reading in the window"},
		{"not read before", readAfter(2*time.Second, 0, nil), readAfter(4*time.Second, 0, cpu(5)), 0, "only one reading in the window"},
		{"absent before", absent, readAfter(6*time.Second, 0, cpu(5)), 0, "only one reading in the window"},
		{"absent now", readAfter(2*time.Second, 0, cpu(3)), absent, 0, "permission denied"},
		{"not selected", readAfter(2*time.Second, 0, nil), readAfter(4*time.Second, 0, nil), 0, "not read in the window"},
		{"not read again", readAfter(2*time.Second, 0, cpu(5)), reread, 0, "only one reading in the window"},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkReading(t, test.now.Rate(test.before, procstats.CgroupCPUUsage), test.want, test.reason)
		})
	}
}

func TestProcessRate(t *testing.T) {
	with := func(at time.Duration, omitted int, rows ...procstats.ProcessRow) *procstats.Sample {
		s := readAfter(at, 0, nil)
		s.SetRead(procstats.SourceTree, s.Stamp)
		s.Processes, s.Omitted = rows, omitted
		return s
	}
	row := func(pid int, start uint64, cpu float64) procstats.ProcessRow {
		r := procstats.ProcessRow{ProcessID: procstats.ProcessID{PID: pid, Start: start}}
		r.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
		return r
	}
	unread := procstats.ProcessRow{ProcessID: procstats.ProcessID{PID: 7, Start: 100}}
	for _, test := range []struct {
		name   string
		before *procstats.Sample
		row    procstats.ProcessRow
		want   float64
		reason string
	}{
		{"the same process", with(2*time.Second, 0, row(5, 90, 1), row(7, 100, 3)), row(7, 100, 5), 1, ""},
		{"nothing before", nil, row(7, 100, 5), 0, "only one reading in the window"},
		{"born since: from 0", with(2*time.Second, 0, row(5, 90, 1)), row(7, 250, 1), 0.5, ""},
		{"another process of the same number", with(2*time.Second, 0, row(7, 100, 9)), row(7, 250, 1), 0.5, ""},
		{"moved into the task", with(2*time.Second, 0, row(5, 90, 1)), row(7, 100, 5), 0, "only one reading in the window"},
		{"perhaps omitted before", with(2*time.Second, 1, row(5, 90, 1)), row(7, 250, 1), 0, "only one reading in the window"},
		{"no rows before", with(2*time.Second, 0), row(7, 250, 1), 0, "only one reading in the window"},
		{"not read before", with(2*time.Second, 0, unread), row(7, 100, 5), 0, "only one reading in the window"},
		{"not read now", with(2*time.Second, 0, row(7, 100, 3)), unread, 0, "not read in the window"},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := with(4*time.Second, 0, test.row)
			checkReading(t, now.ProcessRate(test.before, &now.Processes[0], procstats.ProcessCPU), test.want, test.reason)
		})
	}
}

// TestRatesOfSets holds that a sample whose processes were not read again has the rates between the two newest sets,
// and the next set those since the one before, with processes that were born in between.
func TestRatesOfSets(t *testing.T) {
	set := func(at time.Duration, cpu float64, born ...uint64) *procstats.Sample {
		s := readAfter(at, 0, map[procstats.ID]float64{procstats.TreeCPU: cpu})
		for i, start := range append([]uint64{90}, born...) {
			row := s.AddProcess(procstats.ProcessID{PID: 7 + i, Start: start})
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
		}
		return s
	}
	later := func(s, earlier *procstats.Sample, at time.Duration) *procstats.Sample {
		c := *s
		c.Stamp, c.EarlierSet = procstats.Stamp{Mono: at, Wall: noonOf(at)}, earlier
		return &c
	}
	first, second := set(2*time.Second, 3), set(12*time.Second, 8, 600)
	between, before, now := later(first, nil, 11*time.Second), later(second, first, 13*time.Second), later(second, first, 14*time.Second)
	for name, pair := range map[string][2]*procstats.Sample{"a new set": {between, second}, "the same set": {before, now}} {
		checkReading(t, pair[1].Rate(pair[0], procstats.TreeCPU), 0.5, "")
		checkReading(t, pair[1].ProcessRate(pair[0], &pair[1].Processes[0], procstats.ProcessCPU), 0.5, "")
		checkReading(t, pair[1].ProcessRate(pair[0], &pair[1].Processes[1], procstats.ProcessCPU), 0.8, "")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	checkReading(t, between.Rate(first, procstats.TreeCPU), 0, "only one reading in the window")
	for _, h := range procstats.Headlines(now, procstats.History{}) {
		if h.ID == procstats.HeadlineProcessesAge {
			checkReading(t, h.Reading, 2, "")
			return
		}
	}
	t.Error("the sample does not say how old its processes are")
}

func checkReading(t *testing.T, r procstats.Reading, want float64, reason string) {
	t.Helper()
	value, ok := r.Number()
	if ok != (reason == "") || value != want || r.Reason() != reason {
		t.Errorf("%g (present: %v), %q; want %g, %q", value, ok, r.Reason(), want, reason)
	}
}
