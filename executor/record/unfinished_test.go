// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// reports yields lines as ReadUsage does, an error for each nil.
func reports(lines ...*Usage) iter.Seq2[*Usage, error] {
	return func(yield func(*Usage, error) bool) {
		for _, line := range lines {
			var err error
			if line == nil {
				err = errors.New("line 7: unexpected end of JSON input")
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

func TestFillFromReports(t *testing.T) {
	began := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	cpu, tree, rss, maxRSS := procstats.CgroupCPUUsage.String(), procstats.TreeCPU.String(), procstats.TreeMemory.String(), procstats.RusagePeakRSS.String()
	line := func(from, to float64, samples int64, measurements map[string]Reduced) *Usage {
		at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
		return &Usage{
			From: at(from), To: at(to), FromMono: 1000 + from, ToMono: 1000 + to, Samples: samples, Measurements: measurements,
			Absent: map[string]string{procstats.CgroupMemoryCurrent.String(): "the task has no cgroup"},
		}
	}
	inGroup := []*Usage{
		line(-1, 9, 10, map[string]Reduced{cpu: {Last: new(4.0), Delta: new(4.0)}, rss: {Last: new(5.0), Max: new(900.0)}}),
		nil,
		line(9, 19, 11, map[string]Reduced{cpu: {Last: new(10.0), Delta: new(6.0)}, rss: {Last: new(70.0), Max: new(80.0)}}),
	}
	alone := []*Usage{line(0, 10, 3, map[string]Reduced{
		tree: {Last: new(2.0), Delta: new(2.0)}, rss: {Last: new(0.0), Max: new(8.0)}, maxRSS: {Last: new(100.0), Max: new(100.0)},
	})}
	type head struct {
		Value     float64
		Guarantee procstats.Guarantee
	}
	for _, test := range []struct {
		name    string
		before  Record
		lines   []*Usage
		asOf    float64
		samples int64
		want    map[string]head // of those that have a value
	}{
		{"in a cgroup", Record{State: Lost, StartedAt: began}, inGroup, 19, 21, map[string]head{
			"cpu_seconds_total": {10, procstats.LowerBound}, "cpu_cores": {0.5, procstats.Exact},
			"cpu_cores_average": {10.0 / 19, procstats.Exact}, "memory_bytes": {70, procstats.LowerBound},
			"memory_peak_bytes": {900, procstats.LowerBound},
		}},
		{"without a cgroup", Record{State: Running, StartedAt: began}, alone, 10, 3, map[string]head{
			"cpu_seconds_total": {2, procstats.LowerBound}, "cpu_cores": {0.2, procstats.Sampled},
			"cpu_cores_average": {0.2, procstats.LowerBound},
			"memory_peak_bytes": {100, procstats.LowerBound},
		}},
		{"no report", Record{State: Lost, StartedAt: began}, nil, 0, 0, nil},
		{"none that can be read", Record{State: Lost, StartedAt: began}, []*Usage{nil}, 0, 0, nil},
		{"it was written to its end", Record{State: Exited, StartedAt: began}, inGroup, 0, 0, nil},
		{"it has its numbers", Record{State: Lost, StartedAt: began, Sampling: Sampling{Samples: 4}}, inGroup, 0, 4, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.before
			r.FillFromReports(reports(test.lines...))
			var got map[string]head
			for name, h := range r.Headline {
				if h.Value == nil {
					if h.Reason == "" {
						t.Errorf("%s is absent without a reason", name)
					}
					continue
				}
				if got == nil {
					got = map[string]head{}
				}
				got[name] = head{*h.Value, h.Guarantee}
			}
			testkit.Diff(t, "headlines", test.want, got)
			asOf := 0.0
			if !r.AsOf.IsZero() {
				asOf = r.AsOf.Sub(began).Seconds()
			}
			if r.Samples != test.samples || asOf != test.asOf {
				t.Errorf("%d samples as of %v s, want %d as of %v s", r.Samples, asOf, test.samples, test.asOf)
			}
			if span, ok := r.Span(); ok != (asOf > 0) || span != asOf {
				t.Errorf("span %v, %t, want the time until then", span, ok)
			}
		})
	}
}

// TestSpanIsNotTheTimeOfDay has a machine that was suspended for eight hours between two reports: its process ran for
// twenty minutes.
func TestSpanIsNotTheTimeOfDay(t *testing.T) {
	began := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	cpu := procstats.CgroupCPUUsage.String()
	r := Record{State: Lost, StartedAt: began}
	r.FillFromReports(reports(
		&Usage{
			From: began.Add(time.Second), To: began.Add(600 * time.Second), FromMono: 101, ToMono: 700, Samples: 600,
			Measurements: map[string]Reduced{cpu: {Last: new(600.0), Delta: new(600.0)}},
		},
		&Usage{
			From: began.Add(600 * time.Second), To: began.Add(8*time.Hour + 1200*time.Second), FromMono: 700, ToMono: 1300, Samples: 600,
			Measurements: map[string]Reduced{cpu: {Last: new(1200.0), Delta: new(600.0)}},
		},
	))
	if span, ok := r.Span(); !ok || span != 1200 {
		t.Errorf("span %v, %t", span, ok)
	}
	if h := r.Headline[procstats.HeadlineCoresAverage.String()]; h.Value == nil || *h.Value != 1 {
		t.Errorf("%+v cores on average", h)
	}
}
