// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is text in columns, two blanks apart.
type Table struct {
	Header []string
	// Right has the columns that are aligned to the right: numbers.
	Right []int
	rows  [][]Cell
	// Indent precedes each line.
	Indent string
	// Width is the number of columns at which lines are cut off; 0 for never.
	Width int
}

// Cell is a text and its colour, one of the methods of Palette; nil for none.
type Cell struct {
	text  string
	paint func(string) string
}

// Plain returns a cell without a colour.
func Plain(text string) Cell { return Cell{text: text} }

// Painted returns a cell with a colour, a method of Palette; nil for none.
func Painted(text string, paint func(string) string) Cell { return Cell{text, paint} }

// Add appends a row.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// AddTexts appends a row without colours.
func (t *Table) AddTexts(texts ...string) { t.Add(cellsOf(texts, nil)...) }

func cellsOf(texts []string, paint func(string) string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i] = Cell{text, paint}
	}
	return cells
}

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Render returns the lines of the table, each with its newline.
func (t *Table) Render(p Palette) string {
	lines := t.rows
	if t.Header != nil {
		lines = append([][]Cell{cellsOf(t.Header, p.Bold)}, t.rows...)
	}
	widths := columnWidths(lines)
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(t.line(line, widths))
		b.WriteByte('\n')
	}
	return b.String()
}

func columnWidths(lines [][]Cell) []int {
	var widths []int
	for _, line := range lines {
		for i, c := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

func (t *Table) line(cells []Cell, widths []int) string {
	var b strings.Builder
	b.WriteString(t.Indent)
	column := utf8.RuneCountInString(t.Indent)
	for i, c := range cells {
		gap := ""
		if i > 0 {
			gap = "  "
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		room := t.room(column + len(gap))
		right := slices.Contains(t.Right, i)
		if right && room >= 0 {
			pad = pad[:min(len(pad), room)]
			room -= len(pad)
		}
		text := Cut(c.text, room)
		if right {
			b.WriteString(gap + pad + paint(c, text))
		} else {
			b.WriteString(gap + paint(c, text) + pad)
		}
		column += len(gap) + widths[i]
	}
	return strings.TrimRight(b.String(), " ")
}

// room returns how many runes fit after a column; negative for any number.
func (t *Table) room(column int) int {
	if t.Width == 0 {
		return -1
	}
	return max(0, t.Width-column)
}

// String returns the text in its colour.
func (c Cell) String() string { return paint(c, c.text) }

func paint(c Cell, text string) string {
	if c.paint == nil || text == "" {
		return text
	}
	return c.paint(text)
}

// Cut shortens a text to room runes; the last of them is an ellipsis then. A negative room is unlimited.
func Cut(text string, room int) string {
	if room < 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	if room == 0 {
		return ""
	}
	runes := []rune(text)
	return string(runes[:room-1]) + "…"
}
