// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// number is a value as people see it, with where it comes from.
type number struct {
	// Text is the value with its unit; a dash if it is absent.
	Text string
	// Mark is ≥, ≤ or ~ if the value is not exact; Words are the same for screen readers.
	Mark, Words string
	// Hint says source, guarantee and age, or why there is no value.
	Hint string
	// Name is the row of the table that explains it.
	Name   string
	Absent bool

	guarantee procstats.Guarantee
	// vacuous says that all that is known is that the value is at least 0.
	vacuous bool
}

// absent is a number that was not measured.
func absent(name, reason string) number {
	hint := name + ": not measured: " + cmp.Or(reason, "no reason reported")
	return number{Text: procstats.NoValue, Absent: true, Name: name, Hint: hint}
}

// vacuous is a number whose only known property is that it is at least 0: it was measured, and says nothing.
func vacuous(name string) number {
	hint := name + ": not known: " + procstats.ReasonVacuous
	return number{Text: procstats.NoValue, Absent: true, Name: name, vacuous: true, Hint: hint}
}

// guaranteeText is how a guarantee is written before a number, in a sign and in words, and in full.
func guaranteeText(g procstats.Guarantee) (mark, words, full string) {
	switch g {
	case procstats.LowerBound:
		return "≥", "at least", "lower bound: can miss something, never counts too much"
	case procstats.UpperBound:
		return "≤", "at most", "upper bound: can count too much, never misses anything"
	case procstats.Sampled:
		return "~", "sampled", "sampled: right at the moments of reading"
	case procstats.Exact:
		return "", "", "exact: the kernel's own accounting"
	}
	return "", "", string(g)
}

// numberOf is a value of a measurement that was taken from source. The time is that of sources that are read more
// seldom than others, else zero: a page says once how old it is, and what stays the same is not sent again.
func numberOf(name, text, source string, g procstats.Guarantee, at time.Time) number {
	mark, words, full := guaranteeText(g)
	n := number{Text: text, Name: name, Mark: mark, Words: words, guarantee: g}
	parts := []string{name}
	if source != "" && source != name {
		parts = append(parts, "from "+source)
	}
	if full != "" {
		parts = append(parts, full)
	}
	if !at.IsZero() {
		parts = append(parts, "read at "+at.Format("15:04:05.000"))
	}
	n.Hint = strings.Join(parts, " · ")
	return n
}

// headline writes one of the headlines of a reading, in its own unit.
func headline(list []procstats.HeadlineValue, id procstats.ID, write func(float64) string) number {
	return headlineAt(list, id, write, "not read", time.Time{})
}

// headlineAt writes one of the headlines of a reading or a record; missing says why there is none.
func headlineAt(
	list []procstats.HeadlineValue, id procstats.ID, write func(float64) string, missing string, at time.Time,
) number {
	h, found := figures.Headline(list, id)
	value, ok := h.Reading.Number()
	switch {
	case !found:
		return absent(id.String(), missing)
	case !ok:
		return absent(id.String(), h.Reading.Reason())
	case h.Guarantee.Vacuous(value):
		return vacuous(id.String())
	}
	return numberOf(id.String(), write(value), h.Source, h.Guarantee, at)
}

// slowSource is how much older than its sample a reading has to be for its time to be told.
const slowSource = 2 * time.Second

// reading writes one reading with everything the table says of it.
func reading(s *procstats.Sample, r procstats.Reading) number {
	m, _ := procstats.Lookup(r.ID())
	return readingAs(s, r, m.Guarantee)
}

// readingAs writes one reading with a guarantee that the table does not know.
func readingAs(s *procstats.Sample, r procstats.Reading, g procstats.Guarantee) number {
	m, _ := procstats.Lookup(r.ID())
	name := r.ID().String()
	if !r.Present() {
		return absent(name, r.Reason())
	}
	var at time.Time
	if stamp, ok := s.ReadAt(r.ID()); ok && (s.Mono-stamp.Mono).Abs() > slowSource {
		at = stamp.Wall
	}
	if text, ok := r.Text(); ok {
		return numberOf(name, text, "", g, at)
	}
	value, _ := r.Number()
	if g.Vacuous(value) {
		return vacuous(name)
	}
	return numberOf(name, m.Unit.Text(value), m.File, g, at)
}

// guaranteeOf says what a measurement guarantees.
func guaranteeOf(m procstats.Measurement) string {
	if m.Scope == procstats.HeadlineScope {
		return "that of what it is taken from, given with each value"
	}
	_, _, words := guaranteeText(m.Guarantee)
	return words
}

// measurementsPage fills the page of everything that can be measured.
func (p *Page) measurementsPage(v *view) error {
	v.Title, v.Template, v.Body = "Measurements", "measurements", procstats.Table()
	return nil
}
