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
	"unicode"
)

// box is where series are drawn, in the units of its SVG.
type box struct{ width, height float64 }

// plot draws everything inside the axes of a chart.
func (b box) plot(w *strings.Builder, l *layout, a *Axis) {
	w.WriteString(`<g class="grid">`)
	for _, t := range a.Ticks {
		if x := b.width * a.share(t.At); x > 0 {
			fmt.Fprintf(w, `<path d="M%s 0V%s"/>`, place(x), place(b.height))
		}
	}
	for i := range l.labels {
		fmt.Fprintf(w, `<path d="M0 %sH%s"/>`, place(b.height*l.height(i)), place(b.width))
	}
	w.WriteString("</g>\n")
	for _, g := range a.Gaps {
		from, to := b.width*max(0, a.share(g.From)), b.width*min(1, a.share(g.To))
		fmt.Fprintf(w, `<g class="gap"><title>%s</title><rect x="%s" width="%s" height="%s"/></g>`+"\n",
			escape(g.Title), place(from), place(max(2, to-from)), place(b.height))
	}
	for _, s := range l.Series {
		b.series(w, a, s, l.top)
	}
	legend := l.legend()[len(l.Series):]
	for i, limit := range l.Limits {
		if limit.Value <= l.top {
			fmt.Fprintf(w, `<path class="rule limit" d="M0 %sH%s"><title>%s</title></path>`+"\n",
				place(b.height*(1-limit.Value/l.top)), place(b.width), escape(legend[i].label))
		}
	}
	for _, m := range a.Marks {
		fmt.Fprintf(w, `<path class="event %s" d="M%s 0V%s"><title>%s</title></path>`+"\n",
			escape(m.Class), place(b.width*min(1, max(0, a.share(m.At)))), place(b.height), escape(m.Title))
	}
}

// series draws an area and its upper edge, or a line alone.
func (b box) series(w *strings.Builder, a *Axis, s Series, top float64) {
	line, area := b.paths(a, s.Values, top)
	if line == "" {
		return
	}
	class := escape(s.Class)
	if s.Area {
		fmt.Fprintf(w, `<path class="area %s" d="%s"/>`+"\n", class, area)
	}
	if s.Detail {
		class += " detail"
	}
	fmt.Fprintf(w, `<path class="line %s" d="%s"/>`+"\n", class, line)
}

// paths are the line through some values, and the outline of what is below it.
func (b box) paths(a *Axis, values []float64, top float64) (line, area string) {
	var l, below strings.Builder
	floor := " " + place(b.height)
	for _, stretch := range a.stretches(values) {
		places := make([]string, len(stretch))
		for i, p := range stretch {
			places[i] = place(b.width*p.x) + " " + place(b.height*(1-min(1, p.value/top)))
		}
		through, last := strings.Join(places, "L"), stretch[len(stretch)-1]
		l.WriteString("M" + through)
		if len(stretch) == 1 { // one reading alone is a dot
			l.WriteString("h1")
		}
		from, to := place(b.width*stretch[0].x)+floor, place(b.width*last.x)+floor
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

// The layout of an image, in pixels.
const (
	imageWidth  = 1000
	titleHeight = 44
	panelHeight = 250
	marginLeft  = 86
	marginRight = 28
	plotTop     = 56
	plotHeight  = 160
)

// hatch is the pattern of times without readings, which an SVG or a page has once.
const hatch = `<pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
	`<path d="M0 0V8" class="hatch-line"/></pattern>`

// WriteSVG writes charts below each other, and bars below them if there are any, as an image, which is legible on a
// light and on a dark screen.
func WriteSVG(w io.Writer, title string, a *Axis, charts []Chart, bars *Bars) error {
	var b strings.Builder
	height := titleHeight + len(charts)*panelHeight + bars.height()
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n",
		imageWidth, height, imageWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s</style>\n<defs>%s</defs>\n", escape(title), imageStyle(), hatch)
	fmt.Fprintf(&b, `<rect class="sheet" width="%d" height="%d"/>`+"\n", imageWidth, height)
	fmt.Fprintf(&b, `<text class="title" x="24" y="30">%s</text>`+"\n", escape(fit(title, 110)))
	for i := range charts {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", marginLeft, titleHeight+i*panelHeight)
		charts[i].layout().image(&b, a)
		b.WriteString("</g>\n")
	}
	if bars.height() > 0 {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", marginLeft, titleHeight+len(charts)*panelHeight)
		bars.image(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// image draws a chart with its title, legend and labels.
func (l *layout) image(w *strings.Builder, a *Axis) {
	b := box{imageWidth - marginLeft - marginRight, plotHeight}
	fmt.Fprintf(w, `<text class="caption" y="18">%s</text>`+"\n", escape(l.Title))
	w.WriteString(`<text class="legend" y="40">`)
	for i, e := range l.legend() {
		gap, sign := "", "■"
		if i > 0 {
			gap = ` dx="18"`
		}
		if e.limit {
			sign = "━"
		}
		fmt.Fprintf(w, `<tspan class="key %s"%s>%s</tspan> %s`, escape(e.class), gap, sign, escape(e.label))
		if e.present && !e.detail {
			fmt.Fprintf(w, ` <tspan class="value">max %s</tspan>`, escape(l.text(e.high)))
		}
	}
	fmt.Fprintf(w, "</text>\n"+`<g transform="translate(0 %d)">`+"\n", plotTop)
	b.plot(w, l, a)
	fmt.Fprintf(w, `<path class="base" d="M0 %sH%s"/>`+"\n", place(b.height), place(b.width))
	for i, label := range l.labels {
		fmt.Fprintf(w, `<text class="tick y" x="-9" y="%s">%s</text>`, place(b.height*l.height(i)+4), escape(label))
	}
	for _, t := range a.Ticks {
		fmt.Fprintf(w, `<text class="tick x" x="%s" y="%s">%s</text>`,
			place(b.width*a.share(t.At)), place(b.height+18), escape(t.Label))
	}
	if !l.present {
		fmt.Fprintf(w, "\n"+`<text class="missing" x="%s" y="%s">%s</text>`,
			place(b.width/2), place(b.height/2), escape(fit(l.missing(), 130)))
	}
	w.WriteString("\n</g>\n")
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

// HTML is a chart in a page that has Style, Script and Definitions. The ticks of the axis are at even distances.
func (c *Chart) HTML(a *Axis) string {
	var w strings.Builder
	b, l := pageBox(), c.layout()
	w.WriteString(`<div class="plot">` + "\n")
	list(&w, "y", l.labels)
	w.WriteString(b.open(l.description(a)))
	fmt.Fprintf(&w, ` data-chart='%s'>`+"\n", strings.ReplaceAll(c.data(a), "'", "&#39;"))
	b.plot(&w, l, a)
	w.WriteString("</svg>\n")
	if !l.present {
		fmt.Fprintf(&w, `<p class="empty">%s</p>`+"\n", escape(l.missing()))
	}
	var times []string
	for _, t := range a.Ticks {
		times = append(times, t.Label)
	}
	list(&w, "x", times)
	w.WriteString("</div>\n" + `<ul class="legend">`)
	for _, e := range l.legend() {
		last := ""
		if !e.limit {
			last = " <b>" + escape(l.text(e.last)) + "</b>"
		}
		fmt.Fprintf(&w, `<li><i class="key %s"></i>%s%s</li>`, escape(e.class), escape(e.label), last)
	}
	w.WriteString("</ul>")
	return w.String()
}

// open begins the SVG of a page; attributes may follow.
func (b box) open(description string) string {
	return fmt.Sprintf(`<svg viewBox="0 0 %s %s" preserveAspectRatio="none" role="img" aria-label="%s" focusable="false"`,
		place(b.width), place(b.height), escape(description))
}

// list writes the labels of an axis. They are hidden from screen readers, which cannot place them.
func list(w *strings.Builder, class string, labels []string) {
	fmt.Fprintf(w, `<ol class="%s" aria-hidden="true">`, class)
	for _, label := range labels {
		w.WriteString("<li>" + escape(label) + "</li>")
	}
	w.WriteString("</ol>\n")
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

// The layout of bars in an image, in pixels.
const (
	barsTop   = 32 // below the title
	barHeight = 22
	barLeft   = 170
	barRoom   = 560
)

// height is what bars take in an image; 0 without any.
func (b *Bars) height() int {
	if b == nil || len(b.Rows) == 0 {
		return 0
	}
	return barsTop + len(b.Rows)*barHeight + 28
}

// image draws the bars below each other, the longest possible as wide as there is room.
func (b *Bars) image(w *strings.Builder) {
	fmt.Fprintf(w, `<text class="caption" y="18">%s</text>`+"\n", escape(b.Title))
	for i, row := range b.Rows {
		y := barsTop + i*barHeight
		width := barRoom * min(1, max(0, row.Share))
		fmt.Fprintf(w, `<text class="tick y" x="%d" y="%d">%s</text>`, barLeft-10, y+14, escape(fit(row.Label, 24)))
		fmt.Fprintf(w, `<rect class="bar" x="%d" y="%d" width="%s" height="%d"/>`, barLeft, y+2, place(width), barHeight-6)
		fmt.Fprintf(w, `<text class="tick" x="%s" y="%d">%s</text>`+"\n", place(barLeft+width+8), y+14, escape(row.Value))
	}
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
