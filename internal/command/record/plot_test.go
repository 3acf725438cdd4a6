// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// point is one of so many seconds on the monotonic clock.
func point(from, to float64, last map[procstats.ID]float64, kept map[series.Column]float64) *series.Point {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	return &series.Point{
		Stamp: procstats.Stamp{Wall: noon.Add(seconds(to - 100)), Mono: seconds(to)},
		From:  seconds(from), Samples: 1, Values: last, Kept: kept,
	}
}

func TestRunChartsKeepGaps(t *testing.T) {
	busy := func(from, to, cores, kills float64) *series.Point {
		return point(from, to, map[procstats.ID]float64{procstats.CgroupMemoryEventsOOMKill: kills},
			map[series.Column]float64{{ID: procstats.HeadlineCPU, Keep: procstats.Rate}: cores})
	}
	points := []*series.Point{busy(100, 105, 1, 0), busy(105.01, 110, 1, 0), busy(130, 135, 3, 2), busy(135, 135, 9, 2)}
	axis, charts := runCharts(&record.Record{
		Measurements: map[string]any{"cgroup_cpu_quota_cores": 6.0},
	}, points)
	at := func(seconds float64) time.Time {
		return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	nearly := cmpopts.EquateApproxTime(time.Microsecond)
	moments := []chart.Moment{{At: at(0)}, {At: at(5)}, {At: at(10)}, {At: at(30), Break: true}, {At: at(35)}}
	testkit.Diff(t, "moments", moments, axis.Moments, nearly)
	testkit.Diff(t, "gaps", []chart.Gap{{From: at(10), To: at(30), Title: "no readings for 20 s"}}, axis.Gaps, nearly)
	testkit.Diff(t, "marks", []chart.Mark{{At: at(35), Class: "oom", Title: "2 OOM kills"}}, axis.Marks, nearly)
	cpu := charts[0]
	if diff := cmp.Diff([]float64{1, 1, 1, 3, 3}, cpu.Series[0].Values); diff != "" || len(cpu.Series) != 1 {
		t.Errorf("%d series of CPU (-want +got):\n%s", len(cpu.Series), diff)
	}
	testkit.Diff(t, "limits", []chart.Limit{{Label: "quota", Value: 6}}, cpu.Limits)
	testkit.Equal(t, len(charts), 1, "charts, of what was measured")
}

// TestRunChartsShowLateSamples holds that a sample that came late is a gap, and that one that was joined is none.
func TestRunChartsShowLateSamples(t *testing.T) {
	points := []*series.Point{point(100, 100.25, nil, nil), point(100.25, 107.35, nil, nil), point(107.35, 117, nil, nil)}
	points[2].Samples = 30
	axis, _ := runCharts(&record.Record{Sampling: record.Sampling{Interval: 0.25}}, points)
	if len(axis.Gaps) != 1 || axis.Gaps[0].Title != "not sampled for 7.1 s" {
		t.Errorf("gaps %+v", axis.Gaps)
	}
}

func TestRunChartsTakeNoZeroForAbsent(t *testing.T) {
	charged := func(bytes float64) map[series.Column]float64 {
		return map[series.Column]float64{{ID: procstats.HeadlineMemoryCharged, Keep: procstats.Max}: bytes}
	}
	_, charts := runCharts(&record.Record{}, []*series.Point{
		point(0, 1, nil, charged(0)), point(1, 2, nil, nil), point(2, 3, nil, charged(7)),
	})
	nan := math.NaN()
	want := []float64{0, 0, nan, 7}
	testkit.Diff(t, "values", want, charts[0].Series[0].Values, cmpopts.EquateNaNs())
}

func TestRunChartsOfNothing(t *testing.T) {
	for _, points := range [][]*series.Point{nil, {{}}} {
		axis, charts := runCharts(&record.Record{}, points)
		if !axis.Until.After(axis.Since) || len(axis.Moments) != 0 {
			t.Errorf("axis from %s to %s with %d moments", axis.Since, axis.Until, len(axis.Moments))
		}
		for _, c := range charts {
			testkit.Equal(t, c.Missing, "not recorded over time", "%s: missing", c.Title)
		}
	}
}

// TestRunChartsOfNetwork has samples with counts of packets, as PointOf takes them, and one without.
func TestRunChartsOfNetwork(t *testing.T) {
	var samples []*procstats.Sample
	for second, received := range []float64{0, 1000, 4000, math.NaN()} {
		at := time.Duration(second) * time.Second
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second + at, Wall: noon.Add(at)}}
		s.SetRead(procstats.SourceSkb, s.Stamp)
		if s.SetAbsent(procstats.SkbReceived, "not counted"); !math.IsNaN(received) {
			s.SetNumber(procstats.SkbReceived, received)
		}
		samples = append(samples, s)
	}
	var points []*series.Point
	for i, s := range samples[1:] {
		points = append(points, series.PointOf(samples[i], s))
	}
	_, charts := runCharts(&record.Record{}, points)
	if len(charts) != 1 || len(charts[0].Series) != 1 || charts[0].Series[0].Label != "received" {
		t.Fatalf("%+v", charts)
	}
	testkit.Diff(t, "received", []float64{1000, 1000, 3000, math.NaN()}, charts[0].Series[0].Values, cmpopts.EquateNaNs())
	if _, charts := runCharts(&record.Record{}, points[2:]); charts[0].Missing == "" {
		t.Errorf("without packets: %+v", charts)
	}
}
