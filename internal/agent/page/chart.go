// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
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
	// other are the moments of the task that is drawn beside this one, with its name; readings further apart than apart
	// are not of the same time.
	other     []moment
	otherName string
	apart     time.Duration
}

// newFrame takes the moments that are readings, from the start of the axis on.
func newFrame(since, until time.Time, moments []moment) *frame {
	f := &frame{axis: chart.Axis{Since: since, Until: until}, moments: moments}
	for i := range moments {
		m := &moments[i]
		if m.Gap == series.NoGap && !m.Wall.Before(since) {
			f.shown = append(f.shown, i)
			apart := i > 0 && (moments[i-1].Gap != series.NoGap || moments[i-1].Run != m.Run)
			f.axis.Moments = append(f.axis.Moments, chart.Moment{At: m.Wall, Break: apart})
		}
	}
	return f
}

// beside adds what another task has of a quantity to the series of a chart.
func (f *frame) beside(list []chart.Series, value func(before, m *moment) float64) []chart.Series {
	if f.otherName == "" {
		return list
	}
	values, at := make([]float64, len(f.shown)), 1
	for k, i := range f.shown {
		wall := f.moments[i].Wall
		for at+1 < len(f.other) && !f.other[at+1].Wall.After(wall) {
			at++
		}
		values[k] = math.NaN()
		if at < len(f.other) && f.other[at].Gap == series.NoGap && f.other[at].Wall.Sub(wall).Abs() <= f.apart {
			values[k] = value(&f.other[at-1], &f.other[at])
		}
	}
	return append(list, chart.Series{Label: f.otherName, Class: "third", Values: values})
}

// besideRate is beside for the rates of counters, which are added up.
func (f *frame) besideRate(list []chart.Series, all ...figures.Quantity) []chart.Series {
	return f.beside(list, func(before, m *moment) float64 {
		sum := 0.0
		for _, q := range all {
			sum += m.Rate(before, q)
		}
		return sum
	})
}

// rates are the rates of a counter since the moments before, NaN if there is none.
func (f *frame) rates(q figures.Quantity) []float64 {
	return f.each(func(i int) float64 {
		if i == 0 {
			return math.NaN()
		}
		return f.moments[i].Rate(&f.moments[i-1], q)
	})
}

// values are those of a gauge.
func (f *frame) values(q figures.Quantity) []float64 {
	return f.each(func(i int) float64 { return f.moments[i].Value(q) })
}

func (f *frame) each(value func(i int) float64) []float64 {
	values := make([]float64, len(f.shown))
	for k, i := range f.shown {
		values[k] = value(i)
	}
	return values
}

// limits is the newest value of a limit, if one holds.
func (f *frame) limits(label string, q figures.Quantity) []chart.Limit {
	for _, m := range slices.Backward(f.moments) {
		if v := m.Value(q); m.Gap == series.NoGap && !math.IsNaN(v) {
			return []chart.Limit{{Label: label, Value: v}}
		}
	}
	return nil
}

func (f *frame) draw(key, name string, c chart.Chart) drawnChart {
	// Every text in it is escaped.
	return drawnChart{Key: key, Title: c.Title, Name: name, Body: template.HTML(c.HTML(&f.axis))}
}

// transfer draws the bytes that a task takes in and gives out.
func (f *frame) transfer(key, name, what string, in, out chart.Series) drawnChart {
	in.Class, out.Class = "read", "write"
	both := []chart.Series{in, out}
	if key == "chart-io" {
		both = f.besideRate(both, figures.Read, figures.Written)
	}
	return f.draw(key, name, chart.Chart{
		Title: what + ", in bytes a second", Unit: procstats.BytesPerSecond, Series: both,
	})
}

// measured reports whether any of the readings has a figures.Quantity.
func (f *frame) measured(q figures.Quantity) bool {
	return slices.ContainsFunc(f.shown, func(i int) bool { return !math.IsNaN(f.moments[i].Value(q)) })
}

// counted reports whether any of the readings has more than 0 of a figures.Quantity.
func (f *frame) counted(q figures.Quantity) bool {
	return slices.ContainsFunc(f.shown, func(i int) bool { return f.moments[i].Value(q) > 0 })
}

// charts draws the charts of a task: four, and those of what is not measured of every task; none if nothing was
// measured.
func (f *frame) charts() []drawnChart {
	if len(f.shown) == 0 {
		return nil
	}
	memory := []chart.Series{
		{Label: "with page cache", Class: "cache", Area: true, Values: f.values(figures.MemoryCharged)},
		{Label: "needed", Class: "memory", Area: true, Values: f.values(figures.Memory)},
	}
	if f.measured(figures.PSS) {
		memory = append(memory, chart.Series{Label: "proportional", Class: "third", Values: f.values(figures.PSS)})
	}
	memory = f.beside(memory, func(_, m *moment) float64 { return m.Value(figures.Memory) })
	drawn := []drawnChart{
		f.draw("chart-cpu", "cpu_cores", chart.Chart{
			Title: "CPU, in cores", Unit: procstats.Cores, Limits: f.limits("quota", figures.Quota),
			Series: f.besideRate(
				[]chart.Series{{Label: "used", Class: "cpu", Area: true, Values: f.rates(figures.CPU)}}, figures.CPU),
		}),
		f.draw("chart-memory", "memory_bytes", chart.Chart{
			Title: "Memory", Unit: procstats.Bytes, Limits: f.limits("limit", figures.MemoryLimit), Series: memory,
		}),
		f.transfer("chart-io", "io_read_bytes_total", "Storage",
			chart.Series{Label: "read", Values: f.rates(figures.Read)},
			chart.Series{Label: "written", Values: f.rates(figures.Written)}),
		f.draw("chart-pressure", "psi_cpu_some_seconds_total", chart.Chart{
			Title: "Pressure, share of the time that some process waited", Unit: procstats.Share,
			Series: f.beside([]chart.Series{
				{Label: "for a CPU", Class: "cpu", Values: f.rates(figures.WaitCPU)},
				{Label: "for memory", Class: "memory", Values: f.rates(figures.WaitMemory)},
				{Label: "for I/O", Class: "io", Values: f.rates(figures.WaitIO)},
			}, func(before, m *moment) float64 {
				return max(m.Rate(before, figures.WaitCPU), m.Rate(before, figures.WaitMemory), m.Rate(before, figures.WaitIO))
			}),
		}),
	}
	if f.counted(figures.Received) || f.counted(figures.Sent) {
		drawn = append(drawn, f.transfer("chart-network", "network_received_bytes_total", "Network",
			chart.Series{Label: "received", Values: f.rates(figures.Received)},
			chart.Series{Label: "sent", Values: f.rates(figures.Sent)}))
	}
	if f.measured(figures.Disk) {
		drawn = append(drawn, f.draw("chart-disk", "disk_usage_bytes", chart.Chart{
			Title: "Directory of the task", Unit: procstats.Bytes,
			Series: []chart.Series{{Label: "disk space", Class: "write", Area: true, Values: f.values(figures.Disk)}},
		}))
	}
	return drawn
}

// sparkOf draws a small line of the CPU over the last minutes. It ends with the newest of the recent moments, so that
// it is drawn, and sent, anew with each of them only.
func sparkOf(recent []moment, now time.Time) template.HTML {
	if n := len(recent); n > 0 && now.Sub(recent[n-1].Wall) < 2*trackStep {
		now = recent[n-1].Wall
	}
	f := newFrame(now.Add(-trackSpan), now, recent)
	s := chart.Series{Class: "cpu", Values: f.rates(figures.CPU)}
	description := "no CPU history"
	if low, high, ok := s.Range(); ok {
		description = "CPU over 5 min, between " + procstats.CoresText(low) + " and " + procstats.CoresText(high) + " cores"
	}
	const least = 0.05 // of a core: next to nothing looks like next to nothing
	return template.HTML(chart.Spark(&f.axis, s, least, description))
}

// happening is something that the charts mark.
type happening struct {
	When, What, Class string
	at                time.Time
}

// mostHappened is how many lines the list has; the charts mark all.
const mostHappened = 12

// happened finds gaps, starts, ends and OOM kills, marks them in the charts, and returns the newest, the newest
// first, with the number of those that are left out. The history has all of them for as long as it has points;
// the few events that are kept have the exact times and what ended otherwise.
func (f *frame) happened(t task) (list []happening, more int) {
	all := f.past()
	for _, h := range eventsIn(t) {
		const same = 3 * time.Second
		known := slices.IndexFunc(all, func(o happening) bool { return o.Class == h.Class && o.at.Sub(h.at).Abs() < same })
		if known < 0 {
			all = append(all, h)
		} else if h.Class != "oom" {
			all[known] = h
		}
	}
	all = slices.DeleteFunc(all, func(h happening) bool {
		return h.Class != "gap" && (h.at.Before(f.axis.Since) || h.at.After(f.axis.Until.Add(time.Second)))
	})
	slices.SortStableFunc(all, func(a, b happening) int { return b.at.Compare(a.at) })
	for i := range all {
		h := &all[i]
		h.When = formatClock(h.at)
		if h.Class != "gap" {
			f.axis.Marks = append(f.axis.Marks, chart.Mark{At: h.at, Class: h.Class, Title: h.What + " at " + h.When})
		}
	}
	if len(all) > mostHappened {
		return all[:mostHappened], len(all) - mostHappened
	}
	return all, 0
}

// past is what the history says.
func (f *frame) past() (all []happening) {
	for i := range f.moments {
		m := &f.moments[i]
		if m.Gap != series.NoGap {
			h, shown := f.gapAt(i)
			switch {
			case m.Gap == series.GapOOM:
				if n := len(all); n > 0 && all[n-1].Class == "oom" && i > 0 && all[n-1].at.Equal(f.moments[i-1].Wall) {
					all = all[:n-1] // the last reading saw it already
				}
				all = append(all, happening{at: m.Wall, What: string(record.OOMKilled), Class: "oom"})
			case shown && m.Gap != series.GapTask: // the end and the next start say it
				all = append(all, h)
			}
			continue
		}
		if i == 0 {
			continue
		}
		before := &f.moments[i-1]
		if kills := m.Kills(before); kills > 0 {
			all = append(all, happening{at: m.Wall, What: record.KillsText(kills), Class: "oom"})
		}
		if before.Run != m.Run {
			all = append(all, happening{at: m.Wall, What: "started", Class: "start"})
		}
	}
	return all
}

// eventsIn are the events that the charts mark.
func eventsIn(t task) (all []happening) {
	events, _ := t.state.Details()
	for _, e := range events {
		switch {
		case e.Type == hook.EventStarted:
			all = append(all, happening{at: e.Time, What: "started", Class: "start"})
		case e.Type == hook.EventTerminated && e.Details[allocation.DetailOOMKilled] == "true":
			all = append(all, happening{at: e.Time, What: string(record.OOMKilled), Class: "oom"})
		case e.Type == hook.EventTerminated:
			all = append(all, happening{at: e.Time, What: "ended", Class: "end"})
		}
	}
	if version := t.allocation.JobVersion; version > 0 {
		all = append(all, happening{
			at: t.allocation.CreateTime, What: "version " + strconv.FormatUint(version, 10),
			Class: "version",
		})
	}
	return all
}

// gapAt is the gap that a moment stands for, from the reading before it to the one behind it.
func (f *frame) gapAt(i int) (h happening, ok bool) {
	from, to := f.axis.Since, f.axis.Until
	if i > 0 {
		from = f.moments[i-1].Wall
	}
	if i+1 < len(f.moments) {
		to = f.moments[i+1].Wall
	}
	if !to.After(f.axis.Since) || from.After(f.axis.Until) {
		return h, false
	}
	what := "no readings for " + procstats.Seconds.Text(to.Sub(from).Seconds()) + ": " + f.moments[i].Gap.String()
	f.axis.Gaps = append(f.axis.Gaps, chart.Gap{From: from, To: to, Title: what})
	return happening{at: from, What: what, Class: "gap"}, true
}
