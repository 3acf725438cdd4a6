// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// seriesSet has the running values of one task or one process, ordered by ID.
type seriesSet []series

// series is the running value of one measurement.
type series struct {
	id     ID
	kind   Kind
	count  int    // readings since the window began
	reason string // of the last absence

	base, lastNumber float64 // counters: before the window's first growth, and now
	baseAt, lastAt   Stamp
	based            bool   // base is set
	broken           string // why the counter has no growth over the window

	min, max, sum float64
	maxAt         Stamp
	text          string
	tally         map[string]int
}

func (set seriesSet) get(id ID) *series {
	i, found := set.search(id)
	if !found {
		return nil
	}
	return &set[i]
}

func (set seriesSet) search(id ID) (int, bool) {
	return slices.BinarySearchFunc(set, id, func(s series, id ID) int { return int(s.id) - int(id) })
}

// tally returns the states seen of one measurement; the caller does not change it.
func (set seriesSet) tally(id ID) map[string]int {
	if s := set.get(id); s != nil {
		return s.tally
	}
	return nil
}

// clone copies the set, tallies included.
func (set seriesSet) clone() seriesSet {
	c := slices.Clone(set)
	for i := range c {
		c[i].tally = maps.Clone(c[i].tally)
	}
	return c
}

func (set *seriesSet) add(s *Sample, readings Readings) {
	for i, r := range readings {
		// Every sample of a task has the same readings, nearly always: both lists are ordered alike.
		if i < len(*set) && (*set)[i].id == r.id {
			(*set)[i].add(r, s.readAt(r.id))
			continue
		}
		set.addReading(r, s.readAt(r.id))
	}
}

func (set *seriesSet) addReading(r Reading, at Stamp) {
	m := rowOf(r.id)
	if m == nil {
		return // of a newer build: it passes through samples, but its kind is not known here
	}
	i, found := set.search(r.id)
	if !found {
		*set = slices.Insert(*set, i, series{id: r.id, kind: m.Kind})
	}
	(*set)[i].add(r, at)
}

func (set seriesSet) advance() {
	for i := range set {
		s := &set[i]
		*s = series{
			id: s.id, kind: s.kind, base: s.lastNumber, baseAt: s.lastAt, based: s.based,
			lastNumber: s.lastNumber, lastAt: s.lastAt,
		}
	}
}

func (s *series) add(r Reading, at Stamp) {
	if !r.present {
		s.reason = r.text
		return
	}
	if s.based && at.same(s.lastAt) {
		return // the source was not read again: the same reading, not another one
	}
	switch s.kind {
	case Gauge:
		s.addGauge(r.number, at)
	case Counter:
		s.addCounter(r.number, at)
	case Label:
		s.text = r.text
	case Category:
		if s.tally == nil {
			s.tally = map[string]int{}
		}
		s.tally[r.text]++
		s.text = r.text
	}
	s.count++
	s.lastNumber, s.lastAt, s.based = r.number, at, true
}

func (s *series) addGauge(value float64, at Stamp) {
	if s.count == 0 || value > s.max {
		s.max, s.maxAt = value, at
	}
	if s.count == 0 || value < s.min {
		s.min = value
	}
	s.sum += value
}

func (s *series) addCounter(value float64, at Stamp) {
	if !s.based {
		s.base, s.baseAt = value, at
		return
	}
	if s.broken == "" {
		_, s.broken = CounterReading{Value: value, At: at.Mono}.GrowthSince(CounterReading{Value: s.lastNumber, At: s.lastAt.Mono})
	}
}

func (set seriesSet) reduce(id ID, r Reduction) (Reading, error) {
	m := rowOf(id)
	if m == nil {
		return Reading{}, fmt.Errorf("%s of number %d: %w", r, id, ErrUnknownMeasurement)
	}
	if !m.Kind.Allows(r) {
		return Reading{}, fmt.Errorf("%s of %s, a %s (legal: %s): %w",
			r, m.Name, m.Kind, legalReductions(m.Kind), ErrIllegalReduction)
	}
	if r == Tally {
		return Reading{}, fmt.Errorf("%s of %s is a table of counts and not one value: %w", r, m.Name, ErrIllegalReduction)
	}
	s := set.get(id)
	if s == nil {
		return AbsentReading(id, reasonUnread), nil
	}
	return s.reduce(r), nil
}

func legalReductions(k Kind) string {
	var words []string
	for _, r := range k.Reductions() {
		words = append(words, r.String())
	}
	return strings.Join(words, ", ")
}

func (s *series) reduce(r Reduction) Reading {
	if s.count == 0 {
		if s.reason != "" {
			return AbsentReading(s.id, s.reason)
		}
		return AbsentReading(s.id, reasonUnread)
	}
	switch r {
	case Last:
		if s.kind == Label || s.kind == Category {
			return TextReading(s.id, s.text)
		}
		return NumberReading(s.id, s.lastNumber)
	case Min:
		return NumberReading(s.id, s.min)
	case Max:
		return NumberReading(s.id, s.max)
	case Mean:
		return NumberReading(s.id, s.sum/float64(s.count))
	}
	return s.growth(r)
}

// growth is the delta or the rate of a counter.
func (s *series) growth(r Reduction) Reading {
	switch {
	case s.broken != "":
		return AbsentReading(s.id, s.broken)
	case s.baseAt.same(s.lastAt):
		return AbsentReading(s.id, reasonOne)
	}
	base, last := CounterReading{Value: s.base, At: s.baseAt.Mono}, CounterReading{Value: s.lastNumber, At: s.lastAt.Mono}
	if r == Rate {
		return last.rateSince(s.id, base)
	}
	growth, reason := last.GrowthSince(base)
	if reason != "" {
		return AbsentReading(s.id, reason)
	}
	return NumberReading(s.id, growth)
}
