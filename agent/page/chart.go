// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"html/template"
	"math"
	"slices"
	"time"

	"github.com/tachograph/tacho/agent/history"
	"github.com/tachograph/tacho/chart"
	"github.com/tachograph/tacho/procstats"
)

// drawnChart is a chart on the page.
type drawnChart struct {
	Key, Title string
	// Name is the row of the table that explains it.
	Name string
	Body template.HTML
}

// frame is what the charts of one page have in common.
type frame struct {
	axis    chart.Axis
	moments []moment
	// shown are the moments that the axis has, by their number.
	shown []int
}

// newFrame takes the moments that are readings, from the start of the axis on.
func newFrame(since, until time.Time, moments []moment) *frame {
	f := &frame{axis: chart.Axis{Since: since, Until: until}, moments: moments}
	for i := range moments {
		m := &moments[i]
		if m.gap == history.NoGap && !m.Wall.Before(since) {
			f.shown = append(f.shown, i)
			apart := i > 0 && (moments[i-1].gap != history.NoGap || moments[i-1].run != m.run)
			f.axis.Moments = append(f.axis.Moments, chart.Moment{At: m.Wall, Break: apart})
		}
	}
	return f
}

// rates are the rates of a counter since the moments before, NaN if there is none.
func (f *frame) rates(q quantity) []float64 {
	values := make([]float64, 0, len(f.shown))
	for _, i := range f.shown {
		rate := math.NaN()
		if i > 0 {
			rate = f.moments[i].rate(&f.moments[i-1], q)
		}
		values = append(values, rate)
	}
	return values
}

// values are those of a gauge.
func (f *frame) values(q quantity) []float64 {
	values := make([]float64, 0, len(f.shown))
	for _, i := range f.shown {
		values = append(values, f.moments[i].values[q])
	}
	return values
}

// limits is the newest value of a limit, if one holds.
func (f *frame) limits(label string, q quantity) []chart.Limit {
	for _, m := range slices.Backward(f.moments) {
		if v := m.values[q]; m.gap == history.NoGap && !math.IsNaN(v) {
			return []chart.Limit{{Label: label, Value: v}}
		}
	}
	return nil
}

func (f *frame) draw(key, name string, c chart.Chart) drawnChart {
	// Every text in it is escaped.
	return drawnChart{Key: key, Title: c.Title, Name: name, Body: template.HTML(c.HTML(&f.axis))}
}

// measured reports whether any of the readings has a quantity.
func (f *frame) measured(q quantity) bool {
	return slices.ContainsFunc(f.shown, func(i int) bool { return !math.IsNaN(f.moments[i].values[q]) })
}

// charts draws the charts of a task: four, and those of what was selected in addition.
func (f *frame) charts() []drawnChart {
	memory := []chart.Series{
		{Label: "with page cache", Class: "cache", Area: true, Values: f.values(memoryCharged)},
		{Label: "needed", Class: "memory", Area: true, Values: f.values(memoryNeeded)},
	}
	if f.measured(pss) {
		memory = append(memory, chart.Series{Label: "proportional", Class: "third", Values: f.values(pss)})
	}
	drawn := []drawnChart{
		f.draw("chart-cpu", "cpu_cores", chart.Chart{
			Title: "CPU, in cores", Unit: procstats.Cores, Limits: f.limits("quota", cpuQuota),
			Series: []chart.Series{{Label: "used", Class: "cpu", Area: true, Values: f.rates(cpuSeconds)}},
		}),
		f.draw("chart-memory", "memory_bytes", chart.Chart{
			Title: "Memory", Unit: procstats.Bytes, Limits: f.limits("limit", memoryMax), Series: memory,
		}),
		f.draw("chart-io", "io_read_bytes_total", chart.Chart{
			Title: "Storage, in bytes a second", Unit: procstats.BytesPerSecond,
			Series: []chart.Series{
				{Label: "read", Class: "read", Values: f.rates(ioRead)},
				{Label: "written", Class: "write", Values: f.rates(ioWrite)},
			},
		}),
		f.draw("chart-pressure", "psi_cpu_some_seconds_total", chart.Chart{
			Title: "Pressure, share of the time that some process waited", Unit: procstats.Share,
			Series: []chart.Series{
				{Label: "for a CPU", Class: "cpu", Values: f.rates(stallCPU)},
				{Label: "for memory", Class: "memory", Values: f.rates(stallMemory)},
				{Label: "for I/O", Class: "io", Values: f.rates(stallIO)},
			},
		}),
	}
	if f.measured(diskUsage) {
		drawn = append(drawn, f.draw("chart-disk", "disk_usage_bytes", chart.Chart{
			Title: "Directory of the task", Unit: procstats.Bytes,
			Series: []chart.Series{{Label: "disk space", Class: "write", Area: true, Values: f.values(diskUsage)}},
		}))
	}
	return drawn
}

// sparkOf is a small line of the CPU over the last minutes.
func sparkOf(recent []moment, now time.Time) template.HTML {
	f := newFrame(now.Add(-trackSpan), now, recent)
	s := chart.Series{Class: "cpu", Values: f.rates(cpuSeconds)}
	description := "no CPU history"
	if low, high, ok := s.Range(); ok {
		description = "CPU over 5 min, between " + procstats.CoresText(low) + " and " + procstats.CoresText(high) + " cores"
	}
	const least = 0.05 // of a core: next to nothing looks like next to nothing
	return template.HTML(chart.Spark(&f.axis, s, least, description))
}
