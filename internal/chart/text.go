// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Screen is what there is room for on a terminal.
type Screen struct {
	Columns int
	// Rows is how many rows the plot of one chart may have; its title, its time axis and its legend are not counted.
	Rows   int
	Colour bool
}

// Text draws charts below each other with characters.
func Text(a *Axis, charts []Chart, s Screen) string {
	width := 0 // of the labels
	layouts := make([]*layout, len(charts))
	for i := range charts {
		layouts[i] = charts[i].layout()
		for _, text := range layouts[i].labels {
			width = max(width, utf8.RuneCountInString(text))
		}
	}
	var w strings.Builder
	for i, l := range layouts {
		if i > 0 {
			w.WriteByte('\n')
		}
		w.WriteString(strings.Join(wrapped(l.Title, max(10, s.Columns), titleLines), "\n") + "\n")
		if l.present {
			l.draw(&w, a, s, width)
		} else {
			w.WriteString(strings.Repeat(" ", width+1) + l.Empty() + "\n")
		}
	}
	return w.String()
}

// pen distinguishes a series by its strokes, and on colour terminals by its colour.
type pen struct {
	horizontal, vertical rune
	// The corners that lead from the left: up, down; and to the right: from below, from above.
	up, down, fromBelow, fromAbove rune
	colour                         string
}

const resetColour = "\x1b[0m"

// penOf is the pen of the i-th series that is drawn.
func penOf(i int, colour string) pen {
	pens := [...]pen{
		{horizontal: '─', vertical: '│', up: '╯', down: '╮', fromBelow: '╭', fromAbove: '╰'},
		{horizontal: '━', vertical: '┃', up: '┛', down: '┓', fromBelow: '┏', fromAbove: '┗'},
		{horizontal: '═', vertical: '║', up: '╝', down: '╗', fromBelow: '╔', fromAbove: '╚'},
	}
	p := pens[i%len(pens)]
	p.colour = colour
	return p
}

// colour is the one of a class in the palette that terminals have, if any is wanted.
func (s Screen) colour(class string) string {
	code, known := map[string]string{
		"cpu": "32", "memory": "35", "cache": "36", "read": "34", "write": "33", "io": "33", "limit": "31", "oom": "31",
	}[class]
	if !s.Colour || !known {
		return ""
	}
	return "\x1b[" + code + "m"
}

// canvas is a grid of characters, each with its colour.
type canvas struct {
	cells   [][]string
	rows    int // without the row of 0
	columns int
	top     float64
}

func newCanvas(rows, columns int, top float64) *canvas {
	v := &canvas{rows: rows, columns: columns, top: top}
	for range rows + 1 {
		v.cells = append(v.cells, slices.Repeat([]string{" "}, columns))
	}
	return v
}

func (v *canvas) set(row, column int, r rune, colour string) {
	v.cells[row][column] = paint(string(r), colour)
}

func paint(text, colour string) string {
	if colour == "" {
		return text
	}
	return colour + text + resetColour
}

// row is where a value is, the highest at 0.
func (v *canvas) row(value float64) int {
	return int(math.Round(float64(v.rows) * (1 - max(0, min(1, value/v.top)))))
}

// line draws one value for each column.
func (v *canvas) line(values []float64, p pen) {
	before := -1
	for column, value := range values {
		if math.IsNaN(value) {
			before = -1
			continue
		}
		row := v.row(value)
		switch {
		case before < 0 || row == before:
			v.set(row, column, p.horizontal, p.colour)
		case row < before:
			v.set(before, column, p.up, p.colour)
			v.set(row, column, p.fromBelow, p.colour)
		default:
			v.set(before, column, p.down, p.colour)
			v.set(row, column, p.fromAbove, p.colour)
		}
		if before >= 0 {
			for between := min(row, before) + 1; between < max(row, before); between++ {
				v.set(between, column, p.vertical, p.colour)
			}
		}
		before = row
	}
}

// draw draws a chart below its title. All charts give their labels the same room.
func (l *layout) draw(w *strings.Builder, a *Axis, s Screen, labels int) {
	steps := len(l.labels) - 1
	each := max(1, s.Rows/steps) // rows a step
	v := newCanvas(steps*each, max(10, s.Columns-labels-2), l.top)
	margin := strings.Repeat(" ", labels+2)
	for _, limit := range l.Limits {
		if limit.Value <= l.top {
			for column := range v.columns {
				v.set(v.row(limit.Value), column, '╌', s.colour("limit"))
			}
		}
	}
	var keys []key
	for i, e := range l.Legend() {
		switch {
		case e.Limit:
			keys = append(keys, key{"╌╌", s.colour("limit"), e.Label})
		case !e.Detail:
			p := penOf(len(keys), s.colour(e.Class))
			v.line(a.columns(l.Series[i].Values, v.columns), p)
			k := key{strings.Repeat(string(p.horizontal), 2), p.colour, e.Label}
			if e.Max != "" {
				k.text += " max " + e.Max
			}
			keys = append(keys, k)
		}
	}
	for i, cells := range v.cells {
		if i%each == 0 {
			fmt.Fprintf(w, "%*s ┤", labels, l.labels[steps-i/each])
		} else {
			fmt.Fprintf(w, "%*s │", labels, "")
		}
		w.WriteString(strings.TrimRight(strings.Join(cells, ""), " ") + "\n")
	}
	keys = append(keys, a.drawTimes(w, margin, v.columns, s)...)
	w.WriteString(margin + legendText(keys, margin, v.columns) + "\n")
}

// key is an entry of a legend: how something is drawn, and what it is.
type key struct{ sign, colour, text string }

// legendText writes keys in as many lines as they need.
func legendText(keys []key, margin string, columns int) string {
	var b strings.Builder
	used := 0
	for i, k := range keys {
		width := utf8.RuneCountInString(k.sign + " " + k.text)
		switch {
		case i > 0 && used+3+width > columns:
			b.WriteString("\n" + margin)
			used = 0
		case i > 0:
			b.WriteString("   ")
			used += 3
		}
		b.WriteString(paint(k.sign, k.colour) + " " + k.text)
		used += width
	}
	return b.String()
}

// drawTimes draws the time axis with its ticks and marks, and returns what the marks are.
func (a *Axis) drawTimes(w *strings.Builder, margin string, columns int, s Screen) (keys []key) {
	line := slices.Repeat([]string{"─"}, columns)
	labels := []rune(strings.Repeat(" ", columns))
	free := 0
	for _, t := range a.Ticks {
		column := columnOf(a.share(t.At), columns)
		line[column] = "┬"
		text := []rune(t.Label)
		first := max(0, min(columns-len(text), column-len(text)/2))
		if first >= free && len(text) <= columns {
			copy(labels[first:], text)
			free = first + len(text) + 1
		}
	}
	seen := map[string]bool{}
	for _, m := range a.gathered() {
		k := key{"▲", s.colour(m.Class), strings.Replace(m.Class, "oom", "OOM kill", 1)}
		line[columnOf(a.share(m.At), columns)] = paint(k.sign, k.colour)
		if !seen[m.Class] {
			seen[m.Class] = true
			keys = append(keys, k)
		}
	}
	w.WriteString(margin[:len(margin)-1] + "└" + strings.Join(line, "") + "\n")
	w.WriteString(margin + strings.TrimRight(string(labels), " ") + "\n")
	return keys
}

// columnOf is where a share of the axis is.
func columnOf(share float64, columns int) int {
	return max(0, min(columns-1, int(share*float64(columns))))
}

// columns are the highest values of a line in each of so many columns, NaN if it has none.
func (a *Axis) columns(values []float64, n int) []float64 {
	highest := slices.Repeat([]float64{math.NaN()}, n)
	raise := func(column int, value float64) {
		if math.IsNaN(highest[column]) || highest[column] < value {
			highest[column] = value
		}
	}
	for _, stretch := range a.stretches(values) {
		if len(stretch) == 1 {
			raise(columnOf(stretch[0].x, n), stretch[0].value)
		}
		for i := 1; i < len(stretch); i++ {
			from, to := stretch[i-1], stretch[i]
			if to.x <= from.x {
				continue // what leads straight up or down is in the lines before and after it
			}
			last := columnOf(to.x, n)
			if first := columnOf(from.x, n); last > first && float64(last)/float64(n) >= to.x {
				last-- // a line that ends where a column begins is not in it
			}
			at := func(x float64) float64 {
				return from.value + (to.value-from.value)*max(0, min(1, (x-from.x)/(to.x-from.x)))
			}
			for column := columnOf(from.x, n); column <= last; column++ {
				raise(column, max(at(float64(column)/float64(n)), at(float64(column+1)/float64(n))))
			}
		}
	}
	return highest
}
