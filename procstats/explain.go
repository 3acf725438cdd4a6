// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"strings"
)

// Explain says in a few lines of plain text what a measurement means: help, pitfall, source file, unit, kind
// and legal reductions, guarantee, permanent number. An unknown name is an *UnknownError with near misses.
func Explain(name string) (string, error) {
	m, ok := LookupName(name)
	if !ok {
		return "", &UnknownError{Word: name, Near: nearNames(name)}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.Name)
	writeWrapped(&b, "  ", m.Help)
	if m.Pitfall != "" {
		writeWrapped(&b, "  ", "Note: "+m.Pitfall)
	}
	b.WriteByte('\n')
	for _, fact := range m.facts() {
		writeWrapped(&b, fmt.Sprintf("  %-10s ", fact[0]), fact[1])
	}
	return b.String(), nil
}

// explainWidth is what a terminal shows without wrapping in mid-word.
const explainWidth = 78

// writeWrapped writes a text after a lead, with later lines indented as far.
func writeWrapped(b *strings.Builder, lead, text string) {
	b.WriteString(lead)
	column := len(lead)
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > explainWidth:
			fmt.Fprintf(b, "\n%*s", len(lead), "")
			column = len(lead)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
}

// facts are the row's properties as pairs of word and text.
func (m *Measurement) facts() [][2]string {
	unit := m.Unit.String()
	if unit == "" {
		unit = "none: a plain number"
		if m.Kind == Label || m.Kind == Category {
			unit = "none: a text"
		}
	}
	source, guarantee := m.Source.String(), string(m.Guarantee)
	if m.Scope == HeadlineScope {
		source, guarantee = "the first of these that was read", "that of the source, and given with each value"
	}
	return [][2]string{
		{"source", source},
		{"read from", m.File},
		{"unit", unit},
		{"kind", m.Kind.String() + " (over a window: " + legalReductions(m.Kind) + ")"},
		{"scope", m.Scope.String()},
		{"guarantee", guarantee},
		{"number", fmt.Sprint(int(m.ID))},
	}
}
