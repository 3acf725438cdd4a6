// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
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
	// Width is the number of columns at which lines are cut off. If it is 0, lines fit into the columns of the
	// palette, and the last column is text: it is wrapped at words, not cut off.
	Width int
	// Hidden has the columns that are not shown at any width.
	Hidden []int
	// Leave has the columns that are left out if lines would be wider than Width, the first one first. Shorten is
	// among them if the first column is shortened before the others leave.
	Leave []int
	// Least has the columns that are shortened before lines are cut off, and how wide they are at least. The first
	// column is a name: it is not shortened before Leave says so.
	Least map[int]int
}

// Shorten stands in Leave for the first column, which is shortened.
const Shorten = -1

// Cell is a text and its colour, one of the methods of Palette; nil for none.
type Cell struct {
	text  string
	paint func(string) string
}

// Plain returns a cell without a colour. What a terminal could interpret is escaped, as in all cells: texts come from
// records and file names.
func Plain(text string) Cell { return Painted(text, nil) }

// Painted returns a cell with a colour, a method of Palette; nil for none.
func Painted(text string, paint func(string) string) Cell { return Cell{Printable(text), paint} }

// Add appends a row of cells. What is not a Cell becomes one without a colour.
func (t *Table) Add(cells ...any) {
	row := make([]Cell, len(cells))
	for i, cell := range cells {
		var colored bool
		if row[i], colored = cell.(Cell); !colored {
			row[i] = Plain(fmt.Sprint(cell))
		}
	}
	t.rows = append(t.rows, row)
}

// AddTexts appends a row without colours.
func (t *Table) AddTexts(texts ...string) { t.rows = append(t.rows, cellsOf(texts, nil)) }

func cellsOf(texts []string, paint func(string) string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i] = Painted(text, paint)
	}
	return cells
}

// Texts returns the texts of all rows, without the header.
func (t *Table) Texts() [][]string {
	var rows [][]string
	for _, cells := range t.rows {
		row := make([]string, len(t.Header))
		for i, c := range cells[:min(len(cells), len(row))] {
			row[i] = c.text
		}
		rows = append(rows, row)
	}
	return rows
}

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Lines returns the lines of the table.
func (t *Table) Lines(p Palette) []string {
	return strings.Split(strings.TrimSuffix(t.Render(p), "\n"), "\n")
}

// Render returns the lines of the table, each with its newline.
func (t *Table) Render(p Palette) string {
	lines := t.rows
	if t.Header != nil {
		lines = append([][]Cell{cellsOf(t.Header, p.Bold)}, t.rows...)
	}
	if t.Width == 0 && p.Columns > 0 {
		return t.wrapped(lines, p.Columns)
	}
	kept, widths := t.layout(columnWidths(lines))
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(t.line(line, kept, widths))
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

const gapWidth = 2

// layout returns the columns that are shown, and the width of each column of the table.
func (t *Table) layout(natural []int) (kept, widths []int) {
	widths = slices.Clone(natural)
	spare := t.Width - utf8.RuneCountInString(t.Indent) + gapWidth
	for i := range natural {
		if slices.Contains(t.Hidden, i) {
			continue
		}
		if least, given := t.Least[i]; given && i > 0 && t.Width > 0 {
			widths[i] = min(natural[i], least)
		}
		kept = append(kept, i)
		spare -= gapWidth + widths[i]
	}
	if t.Width == 0 {
		return kept, widths
	}
	for _, leaves := range t.Leave {
		at := slices.Index(kept, leaves)
		switch {
		case spare >= 0:
		case leaves == Shorten:
			spare += widths[0] - min(widths[0], t.Least[0])
			widths[0] = min(widths[0], t.Least[0])
		case at >= 0:
			kept = slices.Delete(kept, at, at+1)
			spare += gapWidth + widths[leaves]
		}
	}
	room := t.Width - utf8.RuneCountInString(t.Indent)
	for _, i := range kept {
		more := max(0, min(natural[i]-widths[i], spare))
		spare -= more
		widths[i] = max(0, min(widths[i]+more, room))
		room -= widths[i] + gapWidth
	}
	return kept, widths
}

func (t *Table) line(cells []Cell, kept, widths []int) string {
	var b strings.Builder
	b.WriteString(t.Indent)
	for n, i := range kept {
		if i >= len(cells) {
			break
		}
		c := cells[i]
		if n > 0 {
			b.WriteString(strings.Repeat(" ", gapWidth))
		}
		if n == len(kept)-1 {
			c.text = Cut(c.text, widths[i]) // the end of a command matters least
		} else {
			c.text = cutMiddle(c.text, widths[i])
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
		if slices.Contains(t.Right, i) {
			b.WriteString(pad + c.String())
		} else {
			b.WriteString(c.String() + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// String returns the text in its colour.
func (c Cell) String() string {
	if c.paint == nil || c.text == "" {
		return c.text
	}
	return c.paint(c.text)
}

// cutMiddle shortens a text to room runes; an ellipsis stands for what is left out in the middle.
func cutMiddle(text string, room int) string {
	runes := []rune(text)
	if len(runes) <= room || room < 3 {
		return Cut(text, room)
	}
	end := (room - 1) / 2
	return string(runes[:room-1-end]) + "…" + string(runes[len(runes)-end:])
}

// Fit joins the first parts that fit into width columns; 0 for all.
func Fit(parts []string, separator string, width int) string {
	line := ""
	for i, part := range parts {
		longer := part
		if i > 0 {
			longer = line + separator + part
		}
		if width > 0 && utf8.RuneCountInString(longer) > width {
			if i == 0 {
				return Cut(part, width)
			}
			break
		}
		line = longer
	}
	return line
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

// Sheet is text that is written in tables, titles and sentences, in the colours of a palette.
type Sheet struct {
	Palette
	strings.Builder
}

// Title writes the title of a section.
func (s *Sheet) Title(title string) { s.WriteString("\n" + s.Bold(title) + "\n") }

// Table writes a table, unless it has no rows.
func (s *Sheet) Table(t *Table) {
	if !t.Empty() {
		s.WriteString(t.Render(s.Palette))
	}
}

// Facts writes pairs of a name and a text, except those without a text.
func (s *Sheet) Facts(pairs ...[2]string) {
	t := Table{Indent: "  "}
	for _, pair := range pairs {
		if pair[1] != "" {
			t.AddTexts(pair[0], pair[1])
		}
	}
	s.Table(&t)
}

// Hang writes a text, see Hang.
func (s *Sheet) Hang(first, rest, text string, paint func(string) string) {
	s.WriteString(Hang(s.Palette, first, rest, text, paint))
}
