// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package chart draws time series: as part of a web page, as an SVG image, and with characters on a terminal. Charts of
// one page or image share their time axis. If nothing was measured nothing is drawn.
package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Chart is a picture of some series over time.
type Chart struct {
	Title  string
	Unit   procstats.Unit
	Series []Series
	Limits []Limit
	// Missing says why no series has a value; it is not read if one has.
	Missing string
}

// Series is one measurement over time.
type Series struct {
	Label string
	// Class names the colour: one of those in the palette.
	Class string
	// Area fills what is below the line.
	Area bool
	// Detail series are thin, and left out if there is room for few.
	Detail bool
	// Values has a value for each moment of the axis, and NaN if nothing was measured.
	Values []float64
}

// Limit is what a task may use at most.
type Limit struct {
	Label string
	Value float64
}

// Axis is the time that charts share.
type Axis struct {
	Since, Until time.Time
	// Moments are in order; those outside the axis are not drawn.
	Moments []Moment
	Ticks   []Tick
	Gaps    []Gap
	Marks   []Mark
}

// Moment is when values are from.
type Moment struct {
	At time.Time
	// Break says that nothing is known of the time since the moment before, so that no line leads here.
	Break bool
}

// Gap is a time without readings.
type Gap struct {
	From, To time.Time
	Title    string
}

// Mark is something that happened.
type Mark struct {
	At time.Time
	// Class is oom, or anything else for what is less grave.
	Class, Title string
}

// gathered are the marks in order; those that would be drawn over each other are one, of the graver class.
func (a *Axis) gathered() (list []Mark) {
	const near, most = 1.0 / 150, 3
	told := 0
	for _, m := range slices.SortedStableFunc(slices.Values(a.Marks), func(a, b Mark) int { return a.At.Compare(b.At) }) {
		n := len(list)
		if n == 0 || a.share(m.At)-a.share(list[n-1].At) > near {
			list, told = append(list, m), 1
			continue
		}
		last := &list[n-1]
		if told++; m.Class == "oom" {
			last.Class = m.Class
		}
		switch {
		case told <= most:
			last.Title += "; " + m.Title
		case told == most+1:
			last.Title += "; and more"
		}
	}
	return list
}

// share is where a moment is, from 0 at the start of the axis to 1 at its end.
func (a *Axis) share(at time.Time) float64 {
	return at.Sub(a.Since).Seconds() / max(a.Until.Sub(a.Since).Seconds(), 1e-9)
}

// point is a place in a chart: x is a share of the axis.
type point struct{ x, value float64 }

// stretches are the points of values that lines connect.
func (a *Axis) stretches(values []float64) [][]point {
	var all [][]point
	apart := true
	for i, m := range a.Moments {
		if math.IsNaN(values[i]) || m.At.Before(a.Since) {
			apart = true
			continue
		}
		if apart || m.Break {
			all = append(all, nil)
		}
		last := &all[len(all)-1]
		*last, apart = append(*last, point{a.share(m.At), values[i]}), false
	}
	return all
}

// extent is the range of a series.
type extent struct {
	// last is the newest value, NaN if the newest moment has none.
	last, low, high float64
	// present is false if there is no value at all.
	present bool
}

func extentOf(values []float64) extent {
	e := extent{last: math.NaN(), low: math.Inf(1), high: math.Inf(-1)}
	for _, v := range values {
		e.last = v
		if !math.IsNaN(v) {
			e.low, e.high, e.present = min(e.low, v), max(e.high, v), true
		}
	}
	return e
}

// Range is from the lowest to the highest value of a series; ok is false if it has none.
func (s Series) Range() (low, high float64, ok bool) {
	e := extentOf(s.Values)
	return e.low, e.high, e.present
}

// layout is what a chart has in common, whatever it is drawn with.
type layout struct {
	*Chart
	// labels belong to the value axis, from 0 to top at even distances.
	labels []string
	top    float64
	// extents are the ranges of the series, and present says that one of them has a value.
	extents []extent
	present bool
}

func (c *Chart) layout() *layout {
	l := &layout{Chart: c}
	highest := 0.0
	for _, s := range c.Series {
		e := extentOf(s.Values)
		l.extents = append(l.extents, e)
		if e.present {
			l.present, highest = true, max(highest, e.high)
		}
	}
	// Limits raise the axis only as long as they leave something to see.
	top := highest
	for _, limit := range c.Limits {
		if limit.Value <= 3*highest || limit.Value <= leastTop(c.Unit) {
			top = max(top, limit.Value)
		}
	}
	l.labels, l.top = valueTicks(c.Unit, top)
	return l
}

// height is where a label of the value axis is: 0 at the top, 1 at the bottom.
func (l *layout) height(label int) float64 { return 1 - float64(label)/float64(len(l.labels)-1) }

// Empty says in a sentence that there is nothing to show; empty if there is something.
func (l *layout) Empty() string {
	switch {
	case l.present:
		return ""
	case l.Missing == "":
		return "Nothing was measured in this time."
	}
	return "Not measured: " + l.Missing + "."
}

// entry is an entry of a legend: the class of what is drawn, and what it is.
type entry struct {
	Class, Label  string
	Limit, Detail bool
	// Value is that of a limit.
	Value float64
	// Last, Low and Max are the newest, lowest and highest value of a series; Low and Max are empty if it has none.
	Last, Low, Max string
}

// Legend lists what is drawn, the limits last.
func (l *layout) Legend() (list []entry) {
	for i, s := range l.Series {
		e := entry{Class: s.Class, Label: s.Label, Detail: s.Detail, Last: l.text(l.extents[i].last)}
		if l.extents[i].present {
			e.Low, e.Max = l.text(l.extents[i].low), l.text(l.extents[i].high)
		}
		list = append(list, e)
	}
	for _, limit := range l.Limits {
		text := limit.Label + " " + l.text(limit.Value)
		if limit.Value > l.top {
			text += ", above this scale"
		}
		list = append(list, entry{Class: "limit", Label: text, Limit: true, Value: limit.Value})
	}
	return list
}

// description is the chart in a few sentences, for screen readers.
func (l *layout) description(a *Axis) string {
	told := []string{l.Title + "."}
	for _, e := range l.Legend() {
		switch {
		case e.Limit:
			told = append(told, e.Label+".")
		case e.Max != "":
			told = append(told, fmt.Sprintf("%s: %s, between %s and %s.", e.Label, e.Last, e.Low, e.Max))
		}
	}
	if !l.present {
		told = append(told, l.Empty())
	}
	if n := len(a.Gaps); n > 0 {
		told = append(told, fmt.Sprintf("Gaps: %d.", n))
	}
	return strings.Join(told, " ")
}

// text writes a value for a legend. The title of a chart of CPUs says what they are counted in.
func (c *Chart) text(value float64) string {
	if c.Unit == procstats.Cores {
		return procstats.CoresText(value)
	}
	return c.Unit.Text(value)
}

// Tick is a place on the time axis and what is written there.
type Tick struct {
	At    time.Time
	Label string
}

// leastTop is the least an axis of values reaches up to: next to nothing looks like next to nothing.
func leastTop(unit procstats.Unit) float64 {
	if least, ok := map[procstats.Unit]float64{procstats.Bytes: 1 << 20, procstats.BytesPerSecond: 64 << 10}[unit]; ok {
		return least
	}
	return 0.1
}

// mostSteps is how many steps an axis of values has at most.
const mostSteps = 4

// valueTicks returns the labels of an axis from 0 that holds a value, the lowest first and at even distances, and the
// value at its top.
func valueTicks(unit procstats.Unit, highest float64) (labels []string, top float64) {
	highest = max(highest, leastTop(unit))
	step := valueStep(unit, highest)
	steps := max(1, int(math.Ceil(highest/step-1e-9)))
	for i := range steps + 1 {
		labels = append(labels, tickText(unit, float64(i)*step))
	}
	return labels, float64(steps) * step
}

// valueStep is 1, 2, 2.5 or 5 times a power of ten, and of bytes a power of two.
func valueStep(unit procstats.Unit, highest float64) float64 {
	if unit == procstats.Bytes || unit == procstats.BytesPerSecond {
		return math.Exp2(math.Ceil(math.Log2(highest/mostSteps) - 1e-9))
	}
	power := math.Pow(10, math.Floor(math.Log10(highest/mostSteps)))
	for _, factor := range [...]float64{1, 2, 2.5, 5} {
		if highest <= mostSteps*factor*power*(1+1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// tickText writes a round value.
func tickText(unit procstats.Unit, value float64) string {
	switch {
	case value == 0:
		return "0"
	case value < 1000 && (unit == procstats.Cores || unit == procstats.None):
		return strconv.FormatFloat(value, 'g', 6, 64)
	}
	return unit.Text(value)
}

// timeStep is the shortest round step that fits at most so often into a span.
func timeStep(span time.Duration, most int) time.Duration {
	const day = 24 * time.Hour
	step := time.Duration(0)
	for _, candidate := range [...]time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day,
	} {
		if step = candidate; span <= time.Duration(most)*step {
			return step
		}
	}
	for span > time.Duration(most)*step {
		step *= 2
	}
	return step
}

// RoundSpan is the shortest round span that is not shorter than another.
func RoundSpan(span time.Duration) time.Duration { return timeStep(span, 1) }

// TicksSince returns at most most+1 ticks that count the time since the start of an axis.
func TicksSince(since, until time.Time, most int) []Tick {
	span := until.Sub(since)
	step := timeStep(span, most)
	var ticks []Tick
	for at := time.Duration(0); at <= span; at += step {
		ticks = append(ticks, Tick{since.Add(at), tickText(procstats.Seconds, at.Seconds())})
	}
	return ticks
}

// ClockTicks returns at most most+1 ticks at round times of day, of the time zone of since.
func ClockTicks(since, until time.Time, most int) []Tick {
	const day = 24 * time.Hour
	step := max(time.Second, timeStep(until.Sub(since), most))
	layout := "15:04"
	switch {
	case step < time.Minute:
		layout = time.TimeOnly
	case step >= day:
		layout = "Jan 2"
	}
	_, offset := since.Zone()
	ahead := time.Duration(offset) * time.Second
	var ticks []Tick
	for at := since.Add(ahead).Truncate(step).Add(-ahead); !at.After(until); at = at.Add(step) {
		switch label := at.In(since.Location()).Format(layout); {
		case at.Before(since):
		case step < day && label[:5] == "00:00":
			ticks = append(ticks, Tick{at, at.In(since.Location()).Format("Jan 2")})
		default:
			ticks = append(ticks, Tick{at, label})
		}
	}
	return ticks
}
