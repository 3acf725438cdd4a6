// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Definitions is what a page with charts has once in its body.
const Definitions = `<svg class="definitions" width="0" height="0" aria-hidden="true" focusable="false"><defs>` + hatch + `</defs></svg>`

// pageBox is the box of a chart in a page, which stretches it; lines keep their width.
func pageBox() box { return box{1000, 200} }

// HTML is a chart in a page that has Style, Script and Definitions. The ticks of the axis are at even distances.
func (c *Chart) HTML(a *Axis) string {
	var w strings.Builder
	b := pageBox()
	labels, top := valueTicks(c.Unit, c.top())
	w.WriteString(`<div class="plot">` + "\n")
	list(&w, "y", labels)
	fmt.Fprintf(&w, `<svg viewBox="0 0 %s %s" preserveAspectRatio="none" role="img" aria-label="%s" focusable="false" data-chart='%s'>`+"\n",
		place(b.width), place(b.height), escape(c.Description(a)), strings.ReplaceAll(c.data(a), "'", "&#39;"))
	b.plot(&w, c, a)
	w.WriteString("</svg>\n")
	if !c.present() {
		fmt.Fprintf(&w, `<p class="empty">%s</p>`+"\n", escape(c.missing()))
	}
	times := make([]string, len(a.Ticks))
	for i, t := range a.Ticks {
		times[i] = t.Label
	}
	list(&w, "x", times)
	w.WriteString("</div>\n" + `<ul class="legend">`)
	for _, s := range c.Series {
		fmt.Fprintf(&w, `<li><i class="key %s"></i>%s <b>%s</b></li>`, escape(s.Class), escape(s.Label), escape(c.text(extentOf(s.Values).last)))
	}
	for _, l := range c.Limits {
		fmt.Fprintf(&w, `<li><i class="key limit"></i>%s</li>`, escape(c.limitText(l, top)))
	}
	w.WriteString("</ul>")
	return w.String()
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
	}{Unit: c.Unit.String(), Since: a.Since.UnixMilli(), Until: a.Until.UnixMilli(), Times: []int64{}, Series: []series{}}
	for _, m := range a.Moments {
		if !m.At.Before(a.Since) {
			d.Times = append(d.Times, m.At.UnixMilli())
		}
	}
	for _, s := range c.Series {
		line := series{Label: s.Label, Class: s.Class, Values: make([]*float64, 0, len(d.Times))}
		for i, m := range a.Moments {
			if !m.At.Before(a.Since) {
				line.Values = append(line.Values, fourDigits(s.Values[i]))
			}
		}
		d.Series = append(d.Series, line)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "{}" // no value here is NaN, so this does not happen
	}
	return string(text)
}

// fourDigits is a value as precise as anybody reads it; nil for NaN.
func fourDigits(value float64) *float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	value, _ = strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64) // what was just written can be read
	return &value
}

// Spark is a small line without axes, from 0 to a little above its highest value or least. Its data are what a script
// needs to prolong it.
func Spark(a *Axis, s Series, least float64, description string) string {
	b := pageBox()
	line, top := "", least*1.05
	if e := extentOf(s.Values); e.present {
		top = max(e.high, least) * 1.05
		line, _ = b.paths(a, s.Values, top)
	}
	text := escape(description)
	return fmt.Sprintf(`<svg viewBox="0 0 %s %s" preserveAspectRatio="none" role="img" aria-label="%s" focusable="false" data-top="%.4g" data-least="%g">`+
		`<path class="line %s" d="%s"/></svg>`, place(b.width), place(b.height), text, top, least, escape(s.Class), line)
}
