// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
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
func (b box) plot(w *strings.Builder, c *Chart, a *Axis) {
	labels, top := valueTicks(c.Unit, c.top())
	w.WriteString(`<g class="grid">`)
	for _, t := range a.Ticks {
		if x := b.width * a.share(t.At); x > 0 {
			fmt.Fprintf(w, `<path d="M%s 0V%s"/>`, place(x), place(b.height))
		}
	}
	for i := range labels {
		fmt.Fprintf(w, `<path d="M0 %sH%s"/>`, place(b.height*(1-float64(i)/float64(len(labels)-1))), place(b.width))
	}
	w.WriteString("</g>\n")
	for _, g := range a.Gaps {
		from, to := b.width*max(0, a.share(g.From)), b.width*min(1, a.share(g.To))
		fmt.Fprintf(w, `<g class="gap"><title>%s</title><rect x="%s" width="%s" height="%s"/></g>`+"\n",
			escape(g.Title), place(from), place(max(2, to-from)), place(b.height))
	}
	for _, s := range c.Series {
		b.series(w, a, s, top)
	}
	for _, l := range c.Limits {
		if l.Value <= top {
			fmt.Fprintf(w, `<path class="rule limit" d="M0 %sH%s"><title>%s</title></path>`+"\n",
				place(b.height*(1-l.Value/top)), place(b.width), escape(c.limitText(l, top)))
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
	floor := place(b.height)
	for _, stretch := range a.stretches(values) {
		for i, p := range stretch {
			x, y := place(b.width*p.x), place(b.height*(1-min(1, p.value/top)))
			if i == 0 {
				l.WriteString("M" + x + " " + y)
				below.WriteString("M" + x + " " + floor + "L" + x + " " + y)
			} else {
				l.WriteString("L" + x + " " + y)
				below.WriteString("L" + x + " " + y)
			}
		}
		if len(stretch) == 1 { // one reading alone is a dot
			l.WriteString("h1")
		}
		below.WriteString("L" + place(b.width*stretch[len(stretch)-1].x) + " " + floor + "Z")
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

// WriteSVG writes charts below each other, and bars below them if there are any, as an image, which is legible on a light and on a
// dark screen.
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
		charts[i].image(&b, a)
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
func (c *Chart) image(w *strings.Builder, a *Axis) {
	b := box{imageWidth - marginLeft - marginRight, plotHeight}
	labels, top := valueTicks(c.Unit, c.top())
	fmt.Fprintf(w, `<text class="caption" y="18">%s</text>`+"\n", escape(c.Title))
	w.WriteString(`<text class="legend" y="40">`)
	for i, l := range c.legend(top) {
		gap := ""
		if i > 0 {
			gap = ` dx="18"`
		}
		fmt.Fprintf(w, `<tspan class="key %s"%s>%s</tspan> %s`, escape(l.class), gap, l.sign, escape(l.label))
		if l.highest != "" {
			fmt.Fprintf(w, ` <tspan class="value">max %s</tspan>`, escape(l.highest))
		}
	}
	fmt.Fprintf(w, "</text>\n"+`<g transform="translate(0 %d)">`+"\n", plotTop)
	b.plot(w, c, a)
	fmt.Fprintf(w, `<path class="base" d="M0 %sH%s"/>`+"\n", place(b.height), place(b.width))
	for i, label := range labels {
		fmt.Fprintf(w, `<text class="tick y" x="-9" y="%s">%s</text>`, place(b.height*(1-float64(i)/float64(len(labels)-1))+4), escape(label))
	}
	for _, t := range a.Ticks {
		fmt.Fprintf(w, `<text class="tick x" x="%s" y="%s">%s</text>`, place(b.width*a.share(t.At)), place(b.height+18), escape(t.Label))
	}
	if !c.present() {
		fmt.Fprintf(w, "\n"+`<text class="missing" x="%s" y="%s">%s</text>`, place(b.width/2), place(b.height/2), escape(fit(c.missing(), 130)))
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

// legend is one entry of the list that says what is drawn.
type legend struct{ class, sign, label, highest string }

func (c *Chart) legend(top float64) []legend {
	var list []legend
	for _, s := range c.Series {
		l := legend{class: s.Class, sign: "■", label: s.Label}
		if e := extentOf(s.Values); e.present && !s.Detail {
			l.highest = c.text(e.high)
		}
		list = append(list, l)
	}
	for _, limit := range c.Limits {
		list = append(list, legend{class: "limit", sign: "━", label: c.limitText(limit, top)})
	}
	return list
}
