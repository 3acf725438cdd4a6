// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"math"
	"slices"
	"time"

	"github.com/tachograph/tacho/chart"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// runCharts arranges the reports of a run into charts of CPU, memory, I/O and pressure over one axis.
func runCharts(r *record.Record, reports []*record.Usage) (*chart.Axis, []chart.Chart) {
	s := reportSeries{record: r}
	for _, u := range reports {
		if u.ToMono > u.FromMono {
			s.reports = append(s.reports, u)
		}
	}
	return s.axis(), []chart.Chart{s.cpu(), s.memory(), s.io(), s.pressure()}
}

// reportSeries turns reports into series. A value is that of a whole report: it has two moments on the axis.
type reportSeries struct {
	record  *record.Record
	reports []*record.Usage
}

func (s *reportSeries) axis() *chart.Axis {
	const mostTicks = 6
	a := &chart.Axis{Until: time.Time{}.Add(time.Millisecond)}
	if len(s.reports) == 0 {
		return a
	}
	// The clock of the reports is monotonic: setting the time of day causes no gap and no overlap.
	start := s.reports[0].From
	at := func(mono float64) time.Time {
		return start.Add(time.Duration((mono - s.reports[0].FromMono) * float64(time.Second)))
	}
	for i, u := range s.reports {
		apart := i > 0 && isGap(s.reports[i-1], u)
		if apart {
			from := at(s.reports[i-1].ToMono)
			a.Gaps = append(a.Gaps, chart.Gap{
				From: from, To: at(u.FromMono), Title: "no readings for " + procstats.Seconds.Text(at(u.FromMono).Sub(from).Seconds()),
			})
		}
		a.Moments = append(a.Moments, chart.Moment{At: at(u.FromMono), Break: apart}, chart.Moment{At: at(u.ToMono)})
		if kills, ok := u.Measurements[procstats.CgroupMemoryEventsOOMKill.String()].Value(procstats.Delta); ok && kills > 0 {
			a.Marks = append(a.Marks, chart.Mark{At: at(u.ToMono), Class: "oom", Title: record.KillsText(int64(kills))})
		}
	}
	a.Since, a.Until = start, a.Moments[len(a.Moments)-1].At
	a.Ticks = chart.TicksSince(a.Since, a.Until, mostTicks)
	return a
}

// isGap reports whether nothing was measured between two reports. Two sources of the same report are not read at the
// same instant: what is shorter than a hundredth of the report before is no gap.
func isGap(before, after *record.Usage) bool {
	return after.FromMono-before.ToMono > 1e-3+(before.ToMono-before.FromMono)/100
}

// values takes one value of each report.
func (s *reportSeries) values(take func(*record.Usage) (float64, bool)) []float64 {
	values := make([]float64, 0, 2*len(s.reports))
	for _, u := range s.reports {
		value, ok := take(u)
		if !ok || math.IsInf(value, 0) {
			value = math.NaN()
		}
		values = append(values, value, value)
	}
	return values
}

func (s *reportSeries) reduced(measurement string, reduction procstats.Reduction) []float64 {
	return s.values(func(u *record.Usage) (float64, bool) { return u.Measurements[measurement].Value(reduction) })
}

// source returns the source of a headline in the record, else in the last report that has one.
func (s *reportSeries) source(id procstats.ID) string {
	if from := s.record.Headline[id.String()].Source; from != "" {
		return from
	}
	for _, u := range slices.Backward(s.reports) {
		if from := u.Headline[id.String()].Source; from != "" {
			return from
		}
	}
	return ""
}

// rate returns the rate of the source of a headline.
func (s *reportSeries) rate(id procstats.ID) []float64 {
	return s.reduced(s.source(id), procstats.Rate)
}

// limits returns the last value of a limit, if there was one.
func (s *reportSeries) limits(label string, id procstats.ID) []chart.Limit {
	for _, u := range slices.Backward(s.reports) {
		if value, ok := u.Measurements[id.String()].Value(procstats.Last); ok {
			return []chart.Limit{{Label: label, Value: value}}
		}
	}
	return nil
}

func (s *reportSeries) cpu() chart.Chart {
	return s.chart(procstats.CgroupCPUUsage, chart.Chart{
		Title: "CPU, in cores", Unit: procstats.Cores, Limits: s.limits("quota", procstats.CgroupCPUQuota),
		Series: []chart.Series{
			{Label: "all", Class: "cpu", Area: true, Values: s.rate(procstats.HeadlineCPU)},
			{Label: "user", Class: "first", Detail: true, Values: s.reduced(procstats.CgroupCPUUser.String(), procstats.Rate)},
			{Label: "system", Class: "second", Detail: true, Values: s.reduced(procstats.CgroupCPUSystem.String(), procstats.Rate)},
		},
	})
}

func (s *reportSeries) memory() chart.Chart {
	needed := s.values(func(u *record.Usage) (float64, bool) {
		value := u.Headline[procstats.HeadlineMemory.String()].Value
		if value == nil {
			return 0, false
		}
		return *value, true
	})
	return s.chart(procstats.CgroupMemoryCurrent, chart.Chart{
		Title: "Memory", Unit: procstats.Bytes, Limits: s.limits("limit", procstats.CgroupMemoryMax),
		Series: []chart.Series{
			{Label: "charged, highest", Class: "cache", Area: true, Values: s.reduced(procstats.CgroupMemoryCurrent.String(), procstats.Max)},
			{Label: "needed", Class: "memory", Area: true, Values: needed},
			{Label: "anonymous", Class: "first", Detail: true, Values: s.reduced(procstats.CgroupMemoryAnon.String(), procstats.Mean)},
			{Label: "files", Class: "second", Detail: true, Values: s.reduced(procstats.CgroupMemoryFile.String(), procstats.Mean)},
			{Label: "kernel", Class: "third", Detail: true, Values: s.reduced(procstats.CgroupMemoryKernel.String(), procstats.Mean)},
		},
	})
}

func (s *reportSeries) io() chart.Chart {
	return s.chart(procstats.CgroupIORead, chart.Chart{
		Title: "Storage, in bytes a second", Unit: procstats.BytesPerSecond,
		Series: []chart.Series{
			{Label: "read", Class: "read", Values: s.rate(procstats.HeadlineIORead)},
			{Label: "written", Class: "write", Values: s.rate(procstats.HeadlineIOWrite)},
		},
	})
}

func (s *reportSeries) pressure() chart.Chart {
	rate := func(id procstats.ID) []float64 { return s.reduced(id.String(), procstats.Rate) }
	return s.chart(procstats.PSICPUSome, chart.Chart{
		Title: "Pressure, share of the time that some process waited", Unit: procstats.Share,
		Series: []chart.Series{
			{Label: "for a CPU", Class: "cpu", Values: rate(procstats.PSICPUSome)},
			{Label: "for memory", Class: "memory", Values: rate(procstats.PSIMemorySome)},
			{Label: "for I/O", Class: "io", Values: rate(procstats.PSIIOSome)},
			{Label: "all for memory", Class: "first", Detail: true, Values: rate(procstats.PSIMemoryFull)},
			{Label: "all for I/O", Class: "second", Detail: true, Values: rate(procstats.PSIIOFull)},
		},
	})
}

// chart omits series without values. If none is left, the chart says why: the reason of its main measurement.
func (s *reportSeries) chart(main procstats.ID, c chart.Chart) chart.Chart {
	c.Series = slices.DeleteFunc(c.Series, func(series chart.Series) bool {
		return !slices.ContainsFunc(series.Values, func(v float64) bool { return !math.IsNaN(v) })
	})
	if len(c.Series) == 0 {
		c.Limits, c.Missing = nil, s.whyMissing(main)
	}
	return c
}

func (s *reportSeries) whyMissing(id procstats.ID) string {
	if reason := s.record.Absent[id.String()]; reason != "" {
		return reason
	}
	for _, u := range slices.Backward(s.reports) {
		if reason := u.Absent[id.String()]; reason != "" {
			return reason
		}
	}
	return "not recorded over time"
}
