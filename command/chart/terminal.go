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
	// The library divides the time axis evenly, so it ends at a whole step.
	end := max(End(panels), 1e-3)
	step := timeStep(end, 5)
	end = math.Ceil(end/step*(1-1e-9)) * step
	labels := 0
	for _, panel := range panels {
		rows, top := panel.rows(height)
		labels = max(labels, labelColumns(panel.Unit, top, rows))
	}
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
		b.WriteString(panel.text(axes{end, step, labels}, max(width, 20), height, colour))
		b.WriteByte('\n')
	}
	return b.String()
}

// axes are what all panels share: the end of the time axis and its step, in seconds, and the columns of the labels.
type axes struct {
	end, step float64
	labels    int
}

// rows is how many rows a panel gets out of so many at most, and the value of the highest: the same number for each
// step of its values, so that the rows stand for round ones.
func (p Panel) rows(most int) (rows int, top float64) {
	values := valueTicks(p.Unit, p.highest())
	steps := len(values) - 1
	return steps * max(1, most/steps), values[steps].value
}

func (p Panel) text(a axes, width, most int, colour bool) string {
	height, top := p.rows(most)
	lines := slices.DeleteFunc(p.drawable(top), func(line Line) bool { return !line.Main })
	var data [][]float64
	for _, line := range lines {
		// The library puts labels, an axis and a blank before the first column.
		data = append(data, line.columns(a.end, max(10, width-a.labels-4)))
	}
	options := []asciigraph.Option{
		asciigraph.Height(height), asciigraph.LowerBound(0), asciigraph.UpperBound(top),
		asciigraph.YAxisValueFormatter(func(value float64) string {
			return fmt.Sprintf("%*s", a.labels, formatTick(p.Unit, value))
		}),
		asciigraph.XAxisRange(0, a.end), asciigraph.XAxisTickCount(int(math.Round(a.end/a.step)) + 1),
		asciigraph.XAxisValueFormatter(func(value float64) string { return formatTime(math.Round(value/a.step) * a.step) }),
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
	return asciigraph.PlotMany(data, options...) + "\n" + strings.Repeat(" ", a.labels+1) + legend.String()
}

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
	return min(n-1, max(0, int(at/end*float64(n))))
}
