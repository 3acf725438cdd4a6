// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/guptarohit/asciigraph"
)

// Text draws the panels below each other with characters, each so many columns wide and lines high, its title and
// legend not counted. Where nothing was measured there is nothing.
func Text(panels []Panel, width, height int, colour bool) string {
	end := End(panels)
	var b strings.Builder
	for i, panel := range panels {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(panel.Title)
		if panel.Missing != "" {
			b.WriteString(": not measured (" + panel.Missing + ")\n")
			continue
		}
		b.WriteByte('\n')
		b.WriteString(panel.text(end, max(width, 20), max(height, 3), colour))
		b.WriteByte('\n')
	}
	return b.String()
}

func (p Panel) text(end float64, width, height int, colour bool) string {
	values := valueTicks(p.Unit, p.highest())
	top := values[len(values)-1].value
	height = rowsFor(len(values)-1, height)
	labels := labelColumns(p.Unit, top, height)
	lines := slices.DeleteFunc(p.drawable(top), func(line Line) bool { return !line.Main })
	var data [][]float64
	for _, line := range lines {
		// The library puts labels, an axis and a blank before the first column.
		data = append(data, line.columns(end, max(10, width-labels-4)))
	}
	options := []asciigraph.Option{
		asciigraph.Height(height), asciigraph.LowerBound(0), asciigraph.UpperBound(top),
		asciigraph.YAxisValueFormatter(func(value float64) string {
			return fmt.Sprintf("%*s", labels, formatTick(p.Unit, value))
		}),
		asciigraph.XAxisRange(0, end), asciigraph.XAxisTickCount(5),
		asciigraph.XAxisValueFormatter(func(value float64) string { return formatTime(roundTime(value, end)) }),
	}
	pens := pensFor(len(lines), colour)
	var legend strings.Builder
	var colours []asciigraph.AnsiColor
	var chars []asciigraph.CharSet
	for i, line := range lines {
		colours, chars = append(colours, pens[i].colour), append(chars, pens[i].chars)
		fmt.Fprintf(&legend, "  %s %s", pens[i].sample(), line.Name)
	}
	options = append(options, asciigraph.SeriesColors(colours...), asciigraph.SeriesChars(chars...))
	return asciigraph.PlotMany(data, options...) + "\n" + strings.Repeat(" ", labels+1) + legend.String()
}

// rowsFor is how many rows a panel gets out of so many at most: the same number for each of its steps, so that the
// rows stand for round values.
func rowsFor(steps, most int) int { return steps * max(1, most/steps) }

// labelColumns is how wide the labels of the library's lines are.
func labelColumns(unit Unit, top float64, height int) int {
	widest := 0
	for i := range height + 1 {
		widest = max(widest, len(formatTick(unit, top*float64(i)/float64(height))))
	}
	return widest
}

// pen tells a line from the others: by its colour, or without colours by its characters.
type pen struct {
	colour asciigraph.AnsiColor
	chars  asciigraph.CharSet
}

func (p pen) sample() string {
	if p.colour == asciigraph.Default {
		return p.chars.Horizontal + p.chars.Horizontal
	}
	return p.colour.String() + p.chars.Horizontal + p.chars.Horizontal + asciigraph.Default.String()
}

func pensFor(n int, colour bool) []pen {
	colours := [...]asciigraph.AnsiColor{asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Yellow}
	marks := [...]string{"", "+", "o", "x"}
	pens := make([]pen, n)
	for i := range pens {
		pens[i] = pen{asciigraph.Default, asciigraph.DefaultCharSet}
		if colour {
			pens[i].colour = colours[i%len(colours)]
		} else if mark := marks[i%len(marks)]; mark != "" {
			pens[i].chars = asciigraph.CreateCharSet(mark)
		}
	}
	return pens
}

// roundTime rounds a place on the time axis to what can be told apart there.
func roundTime(value, end float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(end, 1e-3)/100)))
	if unit >= 1 {
		unit = 1
	}
	return math.Round(value/unit) * unit
}

// columns samples the line at so many places from 0 to end: the largest value of all steps that touch a column, and
// not a number where there is none.
func (l Line) columns(end float64, n int) []float64 {
	columns := make([]float64, n)
	for i := range columns {
		columns[i] = math.NaN()
	}
	for _, step := range l.Steps {
		first, last := columnOf(step.From, end, n), columnOf(step.To, end, n)
		// A step that ends where a column begins is not in it.
		if last > first && float64(last)*end/float64(n) >= step.To {
			last--
		}
		for i := first; i <= last; i++ {
			if math.IsNaN(columns[i]) || columns[i] < step.Value {
				columns[i] = step.Value
			}
		}
	}
	return columns
}

func columnOf(at, end float64, n int) int {
	if end <= 0 {
		return 0
	}
	return min(n-1, max(0, int(at/end*float64(n))))
}
