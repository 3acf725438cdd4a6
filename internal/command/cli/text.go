// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/procstats"
)

// Printable escapes whatever a terminal could interpret: file names and command lines are untrusted bytes.
func Printable(text string) string {
	if isPrintable(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// CommandLine quotes a command for the shell.
func CommandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

func shellQuote(arg string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:=,@%+", r)
	}
	switch {
	case arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0:
		return arg
	case isPrintable(arg) && procstats.RawName(arg) == arg:
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	arg = procstats.RawName(arg) // as it was, if it is from a record
	// ANSI-C quoting of bash and zsh.
	return "$'" + strings.ReplaceAll(Printable(strings.ReplaceAll(arg, `\`, `\\`)), "'", `\'`) + "'"
}

// Print prints a value as the format says: as JSON, otherwise as text.
func Print(cmd *cobra.Command, format *Choice, value any, text func(Palette) string) error {
	out := cmd.OutOrStdout()
	if format.String() == "json" {
		return PrintJSON(out, value)
	}
	_, err := io.WriteString(out, text(PaletteFor(cmd, out)))
	return err
}

// PrintJSON prints a value as indented JSON, in one write.
func PrintJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// Absolute returns an absolute path, as filepath.Abs does. A working directory that was removed has none.
func Absolute(path string) (string, error) {
	full, err := filepath.Abs(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: the working directory was removed; change to another one, or use an absolute path", path)
	}
	return full, err
}

// OneLine joins the lines of a text and escapes the rest like Printable.
func OneLine(text string) string {
	return Printable(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// OrList returns "a, b or c".
func OrList(words []string) string { return list(words, " or ") }

// AndList returns "a, b and c".
func AndList(words []string) string { return list(words, " and ") }

func list(words []string, before string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + before + words[last]
}

// SomeOf returns a comma-separated list of at most four words and the number of the others.
func SomeOf(words []string) string {
	const few = 4
	if len(words) <= few {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:few], ", "), len(words)-few)
}

// Markdown escapes what Markdown and HTML would interpret.
func Markdown(text string) string {
	var b strings.Builder
	for _, r := range OneLine(text) {
		if strings.ContainsRune("\\`*_{}[]<>#|~&$", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Wrap breaks a text at blanks into lines of at most width columns; 0 for one line. A longer word is broken behind a
// slash, or else where the line ends.
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

// lastBlank returns where to break a text that is longer than room: at the last blank behind a word, behind the last
// slash, or at room.
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

// Hang returns a text in lines that fit into the columns of p, with their newlines. The first begins with first,
// which may be coloured, the others with rest; paint colours the text, nil for not.
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

// wrapped renders lines into columns. The last column is wrapped at words; if less than leastWrapped is left for it,
// texts that do not fit follow on lines of their own below their row.
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
	if last >= 0 && !slices.Equal(widths[:last], natural[:last]) { // the last one is written below, and takes no room
		narrow[last] = 0
		kept, widths = fitted.layout(narrow)
	}
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

// Optional returns a value as text, or procstats.NoValue if it was not measured.
func Optional(unit procstats.Unit, value *float64) string {
	if value == nil {
		return procstats.NoValue
	}
	return unit.Text(*value)
}

// OrDash returns text, or procstats.NoValue if it is empty.
func OrDash(text string) string { return cmp.Or(text, procstats.NoValue) }

// GuaranteeText returns the words for a guarantee.
func GuaranteeText(g procstats.Guarantee) string {
	switch g {
	case procstats.LowerBound:
		return "at least"
	case procstats.UpperBound:
		return "at most"
	case procstats.Exact, procstats.Sampled:
	}
	return string(g)
}

// Bounded marks the text of a value that is only a bound.
func Bounded(g procstats.Guarantee, value string) string {
	sign := map[procstats.Guarantee]string{procstats.LowerBound: "≥ ", procstats.UpperBound: "≤ "}
	return sign[g] + value
}

// TableOrder returns the names of measurements in the order of the table, followed by those that only a later version
// of tacho knows.
func TableOrder[V any](values map[string]V) []string {
	var names []string
	for _, m := range procstats.Table() {
		if _, given := values[m.Name]; given {
			names = append(names, m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := procstats.LookupName(name); !known {
			names = append(names, Printable(name))
		}
	}
	return names
}

// MeasurementCompletions returns every name of the table, each after prefix, with its help.
func MeasurementCompletions(prefix string) []cobra.Completion {
	var completions []cobra.Completion
	for _, m := range procstats.Table() {
		completions = append(completions, cobra.CompletionWithDesc(prefix+m.Name, m.Help))
	}
	return completions
}
