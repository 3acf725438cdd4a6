// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package chart draws time series: as part of a web page, as an SVG image, and with characters on a terminal. Charts of
// one page or image share their time axis. If nothing was measured nothing is drawn.
package chart

import (
	"fmt"
	"math"
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

// share is where a moment is, from 0 at the start of the axis to 1 at its end.
func (a *Axis) share(at time.Time) float64 {
	return at.Sub(a.Since).Seconds() / max(a.Until.Sub(a.Since).Seconds(), 1e-9)
}

// point is a place in a chart: x is a share of the axis.
type point struct{ x, value float64 }

// stretches are the points of values that lines connect.
func (a *Axis) stretches(values []float64) [][]point {
	var all [][]point
	var current []point
	end := func() {
		if len(current) > 0 {
			all = append(all, thin(current))
		}
		current = nil
	}
	for i, m := range a.Moments {
		if m.Break {
			end()
		}
		if math.IsNaN(values[i]) || m.At.Before(a.Since) {
			end()
			continue
		}
		current = append(current, point{a.share(m.At), values[i]})
	}
	end()
	return all
}

// mostPoints is about how many points of a line can be told apart.
const mostPoints = 2000

// thin takes the smallest and the largest of every so many points, in their order, and the first and the last of all.
func thin(points []point) []point {
	if len(points) <= mostPoints {
		return points
	}
	every := 2 * ((len(points) + mostPoints - 1) / mostPoints)
	kept := points[:1:1]
	for first := 1; first < len(points)-1; first += every {
		group := points[first:min(first+every, len(points)-1)]
		low, high := 0, 0
		for i, p := range group {
			if p.value < group[low].value {
				low = i
			}
			if p.value > group[high].value {
				high = i
			}
		}
		kept = append(kept, group[min(low, high)])
		if low != high {
			kept = append(kept, group[max(low, high)])
		}
	}
	return append(kept, points[len(points)-1])
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

// present reports whether a chart has anything to show.
func (c *Chart) present() bool {
	for _, s := range c.Series {
		if extentOf(s.Values).present {
			return true
		}
	}
	return false
}

// missing says in a sentence that there is nothing to show.
func (c *Chart) missing() string {
	if c.Missing == "" {
		return "Nothing was measured in this time."
	}
	return "Not measured: " + c.Missing + "."
}

// top is the value that the value axis has to reach. Limits raise it only as long as they leave something to see.
func (c *Chart) top() float64 {
	highest := 0.0
	for _, s := range c.Series {
		if e := extentOf(s.Values); e.present {
			highest = max(highest, e.high)
		}
	}
	top := highest
	for _, l := range c.Limits {
		if l.Value <= 3*highest || l.Value <= leastTop(c.Unit) {
			top = max(top, l.Value)
		}
	}
	return top
}

// Description is the chart in a few sentences, for screen readers.
func (c *Chart) Description(a *Axis) string {
	told := []string{c.Title + "."}
	for _, s := range c.Series {
		if e := extentOf(s.Values); e.present {
			told = append(told, fmt.Sprintf("%s: %s, between %s and %s.", s.Label, c.text(e.last), c.text(e.low), c.text(e.high)))
		}
	}
	_, top := valueTicks(c.Unit, c.top())
	for _, l := range c.Limits {
		told = append(told, c.limitText(l, top)+".")
	}
	if !c.present() {
		told = append(told, c.missing())
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

func (c *Chart) limitText(l Limit, top float64) string {
	text := l.Label + " " + c.text(l.Value)
	if l.Value > top {
		text += ", above this scale"
	}
	return text
}
