// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/agent/history"
	"github.com/tachograph/tacho/procstats"
)

// A chart is drawn in a box of these units, which the page stretches; lines keep their width.
const (
	chartWidth  = 1000
	chartHeight = 200
)

// chart is a picture over time, with all that is said about it in words.
type chart struct {
	Key, Title string
	// Name is the row of the table that explains it.
	Name   string
	Scale  scale
	YTicks []string
	XTicks []string
	Shapes []shape
	Rules  []rule
	Gaps   []hole
	Marks  []mark
	Legend []legend
	// Description is the chart in a sentence or two.
	Description string
	// Empty says why there is nothing to see.
	Empty string
	// Data is what the script needs to read the chart out under the pointer.
	Data string
}

// shape is a line or an area; Class names its colour.
type shape struct{ Class, Path string }

// rule is a line across the chart.
type rule struct {
	Class string
	Y     string
	Label string
}

// hole is a time without readings.
type hole struct{ X, Width, Title string }

// mark is something that happened at a moment.
type mark struct{ X, Class, Title string }

// legend is one trace with its newest value.
type legend struct{ Class, Label, Value string }

// trace is one line of values, NaN where there is none.
type trace struct {
	label, class string
	area         bool
	values       []float64
}

// frame is what the charts of one page have in common.
type frame struct {
	since, until time.Time
	xTicks       []string
	moments      []moment
	gaps         []hole
	marks        []mark
}

// x is a moment's place on the time axis.
func (f *frame) x(at time.Time) float64 {
	return chartWidth * at.Sub(f.since).Seconds() / f.until.Sub(f.since).Seconds()
}

// draw makes a chart of traces; limits are lines across, which raise the scale only if that leaves something to see.
func (f *frame) draw(c chart, traces []trace, limits ...limitLine) chart {
	highest, present := peakOf(traces)
	for _, l := range limits {
		if l.value <= 3*highest || l.value <= c.Scale.least() {
			highest = max(highest, l.value)
		}
	}
	top, labels := c.Scale.axis(highest)
	c.YTicks, c.XTicks, c.Gaps, c.Marks = labels, f.xTicks, f.gaps, f.marks
	var told []string
	for _, t := range traces {
		c.Shapes = append(c.Shapes, f.paths(t, top)...)
		last, low, high, ok := extent(t.values)
		value := procstats.NoValue
		if ok {
			if !math.IsNaN(last) {
				value = c.Scale.format(last)
			}
			told = append(told, fmt.Sprintf("%s: %s, between %s and %s.", t.label, value, c.Scale.format(low), c.Scale.format(high)))
		}
		c.Legend = append(c.Legend, legend{Class: t.class, Label: t.label, Value: value})
	}
	for _, l := range limits {
		label := l.label + " " + c.Scale.format(l.value)
		if l.value <= top {
			c.Rules = append(c.Rules, rule{Class: "limit", Y: coordinate(chartHeight * (1 - l.value/top)), Label: label})
		} else {
			label += ", above this scale"
		}
		c.Legend = append(c.Legend, legend{Class: "limit", Label: label})
		told = append(told, label+".")
	}
	if !present {
		c.Empty = "Nothing was measured in this time."
		told = append(told, c.Empty)
	}
	if n := len(f.gaps); n > 0 {
		told = append(told, fmt.Sprintf("Gaps: %d.", n))
	}
	c.Description = c.Title + ". " + strings.Join(told, " ")
	c.Data = f.data(c.Scale, traces)
	return c
}

// limitLine is a limit that holds.
type limitLine struct {
	label string
	value float64
}

// paths draws a trace: an area and its upper edge, or a line alone, broken where nothing was measured.
func (f *frame) paths(t trace, top float64) []shape {
	var line, area strings.Builder
	start := -1
	flush := func(end int) {
		if start < 0 {
			return
		}
		for i := start; i < end; i++ {
			x := coordinate(f.x(f.moments[i].Wall))
			y := coordinate(chartHeight * (1 - min(1, t.values[i]/top)))
			command := "L"
			if i == start {
				command = "M"
				area.WriteString("M" + x + " " + strconv.Itoa(chartHeight))
			}
			line.WriteString(command + x + " " + y)
			area.WriteString("L" + x + " " + y)
			if i == end-1 {
				if i == start { // one reading alone is a dot
					line.WriteString("h1")
				}
				area.WriteString("L" + x + " " + strconv.Itoa(chartHeight) + "Z")
			}
		}
		start = -1
	}
	for i, v := range t.values {
		m := &f.moments[i]
		broken := math.IsNaN(v) || m.Wall.Before(f.since)
		if broken || (start >= 0 && m.run != f.moments[i-1].run) {
			flush(i)
		}
		if !broken && start < 0 {
			start = i
		}
	}
	flush(len(t.values))
	if line.Len() == 0 {
		return nil
	}
	shapes := []shape{{Class: "line " + t.class, Path: line.String()}}
	if t.area {
		shapes = append([]shape{{Class: "area " + t.class, Path: area.String()}}, shapes...)
	}
	return shapes
}

// data is the chart for the script: times in milliseconds since 1970, and values with null where there is none.
func (f *frame) data(s scale, traces []trace) string {
	type series struct {
		Label  string     `json:"label"`
		Class  string     `json:"class"`
		Values []*float64 `json:"values"`
	}
	d := struct {
		Scale  scale    `json:"scale"`
		Since  int64    `json:"since"`
		Until  int64    `json:"until"`
		Times  []int64  `json:"times"`
		Series []series `json:"series"`
	}{Scale: s, Since: f.since.UnixMilli(), Until: f.until.UnixMilli(), Times: []int64{}, Series: []series{}}
	var kept []int
	for i := range f.moments {
		if f.moments[i].gap == history.NoGap && !f.moments[i].Wall.Before(f.since) {
			kept = append(kept, i)
			d.Times = append(d.Times, f.moments[i].Wall.UnixMilli())
		}
	}
	for _, t := range traces {
		line := series{Label: t.label, Class: t.class, Values: make([]*float64, 0, len(kept))}
		for _, i := range kept {
			var value *float64
			if v := t.values[i]; !math.IsNaN(v) {
				v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
				value = &v
			}
			line.Values = append(line.Values, value)
		}
		d.Series = append(d.Series, line)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "{}" // no value here is NaN, so this does not happen
	}
	return string(text)
}

func peakOf(traces []trace) (highest float64, present bool) {
	for _, t := range traces {
		if _, _, high, ok := extent(t.values); ok {
			highest, present = max(highest, high), true
		}
	}
	return highest, present
}

// extent returns the newest value, NaN where the newest moment has none, and the range; ok is false for no value.
func extent(values []float64) (last, low, high float64, ok bool) {
	last, low, high = math.NaN(), math.Inf(1), math.Inf(-1)
	for _, v := range values {
		last = v
		if !math.IsNaN(v) {
			low, high, ok = min(low, v), max(high, v), true
		}
	}
	return last, low, high, ok
}

// coordinate writes a place in a chart, to a tenth.
func coordinate(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}
