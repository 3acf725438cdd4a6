// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"strings"
	"unicode/utf8"
)

// table is text in columns. Cells are padded to the widest of their column and parted by two blanks.
type table struct {
	header []string
	// right are the columns that are set flush right: numbers.
	right map[int]bool
	rows  [][]cell
	// indent goes before each line.
	indent string
	// width cuts lines off, with an ellipsis; 0 for never.
	width int
}

// cell is a text and how it is coloured.
type cell struct {
	text  string
	paint func(string) string
}

func plain(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i] = cell{text: text}
	}
	return cells
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// render returns the table, each line ended.
func (t *table) render(p palette) string {
	lines := t.rows
	if t.header != nil {
		head := plain(t.header...)
		for i := range head {
			head[i].paint = p.bold
		}
		lines = append([][]cell{head}, t.rows...)
	}
	widths := columnWidths(lines)
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(t.line(line, widths))
		b.WriteByte('\n')
	}
	return b.String()
}

func columnWidths(lines [][]cell) []int {
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

func (t *table) line(cells []cell, widths []int) string {
	var b strings.Builder
	b.WriteString(t.indent)
	column := utf8.RuneCountInString(t.indent)
	for i, c := range cells {
		gap := ""
		if i > 0 {
			gap = "  "
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		room := t.room(column + len(gap))
		if t.right[i] && room >= 0 {
			pad = pad[:min(len(pad), room)]
			room -= len(pad)
		}
		text := cut(c.text, room)
		if t.right[i] {
			b.WriteString(gap + pad + paint(c, text))
		} else {
			b.WriteString(gap + paint(c, text) + pad)
		}
		column += len(gap) + widths[i]
	}
	return strings.TrimRight(b.String(), " ")
}

// room is how many runes fit from a column on; negative for any number.
func (t *table) room(column int) int {
	if t.width == 0 {
		return -1
	}
	return max(0, t.width-column)
}

func paint(c cell, text string) string {
	if c.paint == nil || text == "" {
		return text
	}
	return c.paint(text)
}

// cut shortens a text to a number of runes, the last of which then is an ellipsis.
func cut(text string, room int) string {
	if room < 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	if room == 0 {
		return ""
	}
	runes := []rune(text)
	return string(runes[:room-1]) + "…"
}
