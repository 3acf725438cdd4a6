// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"
	"unicode"
	"unicode/utf8"
)

//go:embed charts.tmpl
var templateText string

// templates are parsed when a chart is drawn for the first time.
//
//nolint:gochecknoglobals // constant
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"n": place, "e": escape, "fit": fit, "add": func(a, b float64) float64 { return a + b },
		"percent": func(share float64) string { return place(100*share) + "%" },
	}).Parse(templateText))
})

func render(name string, data any) string {
	var w strings.Builder
	if err := templates().ExecuteTemplate(&w, name, data); err != nil {
		panic("chart: " + err.Error()) // only a template can be at fault
	}
	return w.String()
}

// box is where series are drawn, in the units of its SVG.
type box struct{ Width, Height float64 }

// drawing is a chart in a box. Its methods are for the templates.
type drawing struct {
	box
	*layout

	Axis *Axis
	// Top is where it begins in an image.
	Top int
}

// Share is where a moment is on the axis, and Marks what happened.
func (d *drawing) Share(at time.Time) float64 { return d.Axis.share(at) }
func (d *drawing) Marks() []Mark              { return d.Axis.gathered() }

// X is where a moment is, and Within where that is in the box; Y is where a value is.
func (d *drawing) X(at time.Time) float64      { return d.Width * d.Axis.share(at) }
func (d *drawing) Within(at time.Time) float64 { return min(d.Width, max(0, d.X(at))) }
func (d *drawing) Y(value float64) float64     { return d.Height * (1 - value/d.top) }

// Flag is how far down a mark is drawn in full; what it crosses below must stay legible.
func (d *drawing) Flag() float64 { return d.Height / 10 }

// GapWidth is how wide a gap is drawn.
func (d *drawing) GapWidth(g Gap) float64 { return max(2, d.Within(g.To)-d.Within(g.From)) }

// rule is a line at a label of the value axis.
type rule struct {
	Y    float64
	Text string
}

// Rules are the lines of the value axis.
func (d *drawing) Rules() (list []rule) {
	for i, text := range d.labels {
		list = append(list, rule{d.Height * d.height(i), text})
	}
	return list
}

// stroke is a series with its line, and the outline of what is below it.
type stroke struct {
	Series
	Line, Below string
}

// Strokes are the series that have a value.
func (d *drawing) Strokes() (list []stroke) {
	for _, s := range d.Series {
		if line, below := d.paths(d.Axis, s.Values, d.top); line != "" {
			list = append(list, stroke{s, line, below})
		}
	}
	return list
}

// Open begins the SVG of a page.
func (d *drawing) Open() string { return d.open(d.description(d.Axis)) }

// Data are the values for the script.
func (d *drawing) Data() string { return strings.ReplaceAll(d.data(d.Axis), "'", "&#39;") }

// paths are the line through some values, and the outline of what is below it.
func (b box) paths(a *Axis, values []float64, top float64) (line, area string) {
	var l, below strings.Builder
	floor := " " + place(b.Height)
	for _, stretch := range a.stretches(values) {
		places := make([]string, len(stretch))
		for i, p := range stretch {
			places[i] = place(b.Width*p.x) + " " + place(b.Height*(1-min(1, p.value/top)))
		}
		through, last := strings.Join(places, "L"), stretch[len(stretch)-1]
		l.WriteString("M" + through)
		if len(stretch) == 1 { // one reading alone is a dot
			l.WriteString("h1")
		}
		from, to := place(b.Width*stretch[0].x)+floor, place(b.Width*last.x)+floor
		below.WriteString("M" + from + "L" + through + "L" + to + "Z")
	}
	return l.String(), below.String()
}

// place writes a coordinate, to a tenth.
func place(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// escape makes a text safe in HTML and XML, which have no way to write most control characters.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF {
			return unicode.ReplacementChar
		}
		return r
	}, text))
}

// The layout of an image in pixels, beside what its templates have.
const (
	titleHeight = 44 // of one line
	titleStep   = 20 // of each more
	titleWidth  = 110
	titleLines  = 4
	panelHeight = 250
	barRoom     = 560
	barHeight   = 22
	barsTop     = 32 // below the title
)

// hatch is the pattern of times without readings, which an SVG or a page has once.
const hatch = `<pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
	`<path d="M0 0V8" class="hatch-line"/></pattern>`

// WriteSVG writes charts below each other, and bars below them if there are any, as an image, which is legible on a
// light and on a dark screen.
func WriteSVG(w io.Writer, title string, a *Axis, charts []Chart, bars *Bars) error {
	lines := wrapped(title, titleWidth, titleLines)
	top := titleHeight + (len(lines)-1)*titleStep
	below := top + len(charts)*panelHeight
	data := struct {
		Title, Style, Hatch, RowsTitle string
		Height, Below                  int
		Lines                          []string
		Panels                         []drawing
		Rows                           []drawnBar
	}{
		Title: title, Style: imageStyle(), Hatch: hatch, Height: below, Below: below, Lines: lines,
		Panels: make([]drawing, len(charts)),
	}
	for i := range charts {
		data.Panels[i] = drawing{box{886, 160}, charts[i].layout(), a, top + i*panelHeight}
	}
	if bars != nil && len(bars.Rows) > 0 {
		data.RowsTitle, data.Height = bars.Title, below+barsTop+len(bars.Rows)*barHeight+28
		for i, row := range bars.Rows {
			bar := drawnBar{row, float64(barsTop + i*barHeight), barRoom * min(1, max(0, row.Share))}
			data.Rows = append(data.Rows, bar)
		}
	}
	_, err := io.WriteString(w, render("svg", data))
	return err
}

// wrapped breaks a text at blanks into lines, at least one, that are not longer than width; what exceeds most lines is
// cut off.
func wrapped(text string, width, most int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width, len(lines) == most:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	for i, line := range lines {
		lines[i] = fit(line, width)
	}
	return lines
}

// fit cuts a text off if it is too long for its line.
func fit(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// Definitions is what a page with charts has once in its body.
const Definitions = `<svg class="definitions" width="0" height="0" aria-hidden="true" focusable="false"><defs>` +
	hatch + `</defs></svg>`

// pageBox is the box of a chart in a page, which stretches it; lines keep their width.
func pageBox() box { return box{1000, 200} }

// HTML is a chart in a page that has Style, Script and Definitions.
func (c *Chart) HTML(a *Axis) string {
	return render("html", &drawing{box: pageBox(), layout: c.layout(), Axis: a})
}

// open begins the SVG of a page; attributes may follow.
func (b box) open(description string) string {
	return fmt.Sprintf(`<svg viewBox="0 0 %s %s" preserveAspectRatio="none" role="img" aria-label="%s" focusable="false"`,
		place(b.Width), place(b.Height), escape(description))
}

// data is the chart for the script, as JSON without <, > and &: times in milliseconds since 1970, and values with null
// if there is none.
func (c *Chart) data(a *Axis) string {
	type series struct {
		Label  string     `json:"label"`
		Class  string     `json:"class"`
		Values []*float64 `json:"values"`
	}
	d := struct {
		Unit   string   `json:"unit"`
		Since  int64    `json:"since"`
		Until  int64    `json:"until"`
		Times  []int64  `json:"times"`
		Series []series `json:"series"`
	}{c.Unit.String(), a.Since.UnixMilli(), a.Until.UnixMilli(), []int64{}, make([]series, len(c.Series))}
	for k, s := range c.Series {
		d.Series[k] = series{s.Label, s.Class, []*float64{}}
	}
	for i, m := range a.Moments {
		if m.At.Before(a.Since) {
			continue
		}
		d.Times = append(d.Times, m.At.UnixMilli())
		for k, s := range c.Series {
			d.Series[k].Values = append(d.Series[k].Values, fourDigits(s.Values[i]))
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "{}" // no value here is NaN, so this does not happen
	}
	return string(text)
}

// fourDigits rounds a value to what a reader needs; nil for NaN.
func fourDigits(value float64) *float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	value, _ = strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64) // what was just written can be read
	return &value
}

// Spark is a small line without axes, from 0 to a little above its highest value or least.
func Spark(a *Axis, s Series, least float64, description string) string {
	b, line := pageBox(), ""
	if e := extentOf(s.Values); e.present {
		line, _ = b.paths(a, s.Values, max(e.high, least)*1.05)
	}
	return b.open(description) + fmt.Sprintf(`><path class="line %s" d="%s"/></svg>`, escape(s.Class), line)
}

// Bars are parts of a whole.
type Bars struct {
	Title string
	Rows  []Bar
}

// Bar is one part.
type Bar struct {
	// Share is how much of the whole it is, 0 to 1.
	Share float64
	// Label says of what it is a part, Value how much it is.
	Label, Value string
}

// drawnBar is a bar in an image, the longest possible as wide as there is room.
type drawnBar struct {
	Bar
	Y, Width float64
}

// What is inside the axes of a chart, what an image has around it, and what a page has.
var (
	//go:embed svg.css
	svgStyle string
	//go:embed image.css
	aroundImage string
	//go:embed page.css
	aroundPage string
	//go:embed chart.js
	script string
)

// colour is a colour by what it means, for light and for dark screens.
type colour struct{ name, light, dark string }

// palette is the colours of charts: cpu is green, memory is violet, storage is blue and ochre, a limit is red. Those
// without a meaning are for details.
func palette() []colour {
	return []colour{
		{"sheet", "#fdfefc", "#141b18"},
		{"ink", "#15201b", "#e2ebe6"},
		{"soft", "#51605a", "#9fb0a8"},
		{"rule", "#d3dbd5", "#2b3731"},
		{"grid", "#e4eae6", "#1f2924"},
		{"cpu", "#0b6b54", "#5fc9a9"},
		{"memory", "#4b479f", "#a5a0f5"},
		{"memory-area", "#9b99c9", "#646492"},
		{"cache", "#b3b1df", "#4c4991"},
		{"cache-area", "#d8d8ee", "#303254"},
		{"read", "#23619e", "#79b2ee"},
		{"write", "#9a5b00", "#e3a857"},
		{"limit", "#b3261c", "#ff8a7a"},
		{"bad", "#ab2219", "#ff9a8c"},
		{"first", "#3f83b5", "#5f9fd0"},
		{"second", "#b0642a", "#d08a55"},
		{"third", "#8a5a80", "#c08ab5"},
	}
}

// Style is the style sheet of charts in a page. It defines the colours as variables, which the page may use too.
func Style() string {
	var light, dark strings.Builder
	for _, c := range palette() {
		light.WriteString(" --" + c.name + ": " + c.light + ";")
		dark.WriteString(" --" + c.name + ": " + c.dark + ";")
	}
	return ":root {" + light.String() + " }\n@media (prefers-color-scheme: dark) { :root {" + dark.String() + " } }\n" +
		svgStyle + aroundPage
}

// imageStyle is the style sheet of an image. Not all that show SVG know variables, so each colour is written out.
func imageStyle() string {
	var light, dark []string
	for _, c := range palette() {
		light = append(light, "var(--"+c.name+")", c.light)
		dark = append(dark, "var(--"+c.name+")", c.dark)
	}
	rules := aroundImage + svgStyle
	return strings.NewReplacer(light...).Replace(rules) +
		"@media (prefers-color-scheme: dark) {\n" + strings.NewReplacer(dark...).Replace(rules) + "}\n"
}

// Script reads charts of a page out under the pointer and the arrow keys.
func Script() string { return script }
