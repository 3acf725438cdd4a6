// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

// Measurement is one row of the table: everything there is to say about a number before it is read.
type Measurement struct {
	// ID is the permanent number.
	ID ID
	// Name is the one name of the measurement in JSON, metrics, flags and docs: the source first, the
	// kernel's words, the unit last.
	Name  string
	Unit  Unit
	Kind  Kind
	Scope Scope
	// Source reads it; SourceNone for headlines.
	Source SourceID
	// Set is what the measurement is about, if others of its source are measured, or absent, together with it.
	Set Set
	// File is the kernel file and key, or the system call, with the kernel version it exists since.
	File string
	// Guarantee is how the value relates to the truth; empty for headlines, which take their source's.
	Guarantee Guarantee
	// Help is one sentence on what the number means.
	Help string
	// Pitfall is how the number is commonly misread; empty where it is not.
	Pitfall string
}

// section is a part of the table: the rows that have a scope and a source in common, which stand once.
type section struct {
	scope  Scope
	source SourceID
	rows   []Measurement
}

// rows has the table by ID. It is made when it is first asked for: a process that does not ask pays nothing at its
// start. Table and Lookup hand out copies.
//
//nolint:gochecknoglobals // the one table, never written to
var rows = sync.OnceValue(func() *[64 * selectionWords]*Measurement {
	var byID [64 * selectionWords]*Measurement
	for _, s := range slices.Concat(cgroupRows[:], headlineRows[:], processRows[:], treeRows[:]) {
		for _, m := range s.rows {
			m.Scope, m.Source = s.scope, s.source
			byID[m.ID] = &m
		}
	}
	return &byID
})

// allRows walks the table in the order of IDs.
func allRows() iter.Seq[*Measurement] {
	return func(yield func(*Measurement) bool) {
		for _, m := range rows() {
			if m != nil && !yield(m) {
				return
			}
		}
	}
}

// rowOf finds a row by its number, nil for an unknown one.
func rowOf(id ID) *Measurement {
	if byID := rows(); int(id) < len(byID) {
		return byID[id]
	}
	return nil
}

// Table returns every measurement there is, ordered by ID.
func Table() []Measurement {
	table := make([]Measurement, 0, 256) // grown by doubling, it would be copied eight times
	for m := range allRows() {
		table = append(table, *m)
	}
	return table
}

// Lookup returns the row of an ID; ok is false for numbers that this build does not know.
func Lookup(id ID) (m Measurement, ok bool) {
	found := rowOf(id)
	if found == nil {
		return Measurement{}, false
	}
	return *found, true
}

// LookupName returns the row with a name; ok is false for an unknown name.
func LookupName(name string) (m Measurement, ok bool) {
	for m := range allRows() {
		if m.Name == name {
			return *m, true
		}
	}
	return Measurement{}, false
}

// hasPrefix reports whether prefix is a whole number of words at the start of name: cgroup_memory is one of
// cgroup_memory_peak_bytes, cgroup_mem is not.
func hasPrefix(name, prefix string) bool {
	rest, found := strings.CutPrefix(name, prefix)
	return found && prefix != "" && (rest == "" || rest[0] == '_')
}

// Explanation is what a measurement means.
type Explanation struct {
	// Text is help and pitfall, a paragraph each.
	Text []string
	// Facts are pairs of a word and a text: source file, unit, kind and legal reductions, guarantee, permanent number.
	Facts [][2]string
}

// Explain says what a measurement means. An unknown name is an *UnknownError with near misses.
func Explain(name string) (Explanation, error) {
	m, ok := LookupName(name)
	if !ok {
		return Explanation{}, &UnknownError{Word: name, Near: nearNames(name)}
	}
	e := Explanation{Text: []string{m.Help}, Facts: m.facts()}
	if m.Pitfall != "" {
		e.Text = append(e.Text, "Note: "+m.Pitfall)
	}
	return e, nil
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
