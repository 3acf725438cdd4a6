// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text at blanks into lines of at most width columns; 0 for one line. A longer word is broken behind a slash, or else where
// the line ends.
func Wrap(text string, width int) []string { return wrap(text, width, width) }

// wrap is Wrap with another width for the first line.
func wrap(text string, first, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	rest, room := []rune(text), max(1, first)
	for len(rest) > room {
		at := lastBlank(rest, room)
		if rest[at] != ' ' && room < width {
			lines, room = append(lines, ""), width // the next line has more room for the word
			continue
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
		room = width
	}
	return append(lines, string(rest))
}

// lastBlank returns where to break a text that is longer than room: at the last blank behind a word, behind the last slash, or at room.
func lastBlank(text []rune, room int) int {
	for i := room; i > 0; i-- {
		if text[i] == ' ' && strings.TrimLeft(string(text[:i]), " ") != "" {
			return i
		}
	}
	for i := room; i > 1; i-- {
		if text[i-1] == '/' {
			return i
		}
	}
	return room
}

// Hang returns a text in lines that fit into the columns of p, with their newlines. The first begins with first, which may be coloured,
// the others with rest; paint colours the text, nil for not.
func Hang(p Palette, first, rest, text string, paint func(string) string) string {
	lines := []string{text}
	if p.Columns > 0 {
		lines = wrap(text, p.Columns-VisibleWidth(first), max(1, p.Columns-VisibleWidth(rest)))
	}
	var b strings.Builder
	for i, line := range lines {
		if i == 0 {
			line = first + Painted(line, paint).String()
		} else {
			line = rest + Painted(line, paint).String()
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// VisibleWidth counts the visible runes of a text, whose only escape sequences are colours.
func VisibleWidth(line string) int {
	n := 0
	for line != "" {
		if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
			_, line, _ = strings.Cut(rest, "m")
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		n++
	}
	return n
}

// leastWrapped is how wide a wrapped column is at least: a narrower one is hard to read.
const leastWrapped = 30

// belowIndent precedes texts that are below their row.
const belowIndent = "    "

// wrapped renders lines into columns. The last column is wrapped at words; if less than leastWrapped is left for it, texts that do not fit
// follow on lines of their own below their row.
func (t *Table) wrapped(lines [][]Cell, columns int) string {
	fitted := *t
	fitted.Width = columns
	natural := columnWidths(lines)
	last := len(natural) - 1
	narrow := slices.Clone(natural)
	if last >= 0 {
		narrow[last] = min(narrow[last], leastWrapped)
	}
	kept, widths := fitted.layout(narrow)
	start := utf8.RuneCountInString(t.Indent)
	for _, i := range kept {
		if i != last {
			start += widths[i] + gapWidth
		}
	}
	if last >= 0 {
		widths[last] = max(0, min(natural[last], columns-start))
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(fitted.wrappedRow(line, kept, widths))
	}
	return b.String()
}

// wrappedRow renders a row whose last column is wrapped to its width.
func (t *Table) wrappedRow(cells []Cell, kept, widths []int) string {
	last := len(widths) - 1
	if len(cells) <= last || !slices.Contains(kept, last) || utf8.RuneCountInString(cells[last].text) <= widths[last] {
		return t.line(cells, kept, widths) + "\n"
	}
	row, text := slices.Clone(cells), cells[last]
	if widths[last] < leastWrapped {
		row[last] = Cell{}
		below := t.Indent + belowIndent
		return t.line(row, kept, widths) + "\n" + Hang(Palette{Columns: t.Width}, below, below, text.text, text.paint)
	}
	var b strings.Builder
	for i, part := range Wrap(text.text, widths[last]) {
		if row[last] = (Cell{part, text.paint}); i > 0 {
			clear(row[:last])
		}
		b.WriteString(t.line(row, kept, widths) + "\n")
	}
	return b.String()
}
