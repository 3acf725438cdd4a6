// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrIllegalReduction is wrapped where a reduction means nothing for a measurement's kind.
var ErrIllegalReduction = errors.New("illegal reduction")

// Reasons for the absence of a reduction.
const (
	reasonRestarted = "the counter went down: its source started again"
	reasonClock     = "the clock did not advance between the readings"
	reasonOne       = "only one reading in the window"
	reasonUnread    = "not read in the window"
	reasonSource    = "taken from different measurements within the window"
	reasonRun       = "the task was started again between the readings"
	reasonShort     = "less than 20 ms between the readings"
)

// Window accumulates samples and reduces them. It keeps running values and no samples, so its size does not
// grow with its length. The zero Window is ready for use; it is used by one goroutine at a time.
type Window struct {
	// MaxProcesses bounds the processes that are remembered; 0 means 1000, a negative number none. Beyond it
	// those that ended with the least CPU time go first.
	MaxProcesses int

	samples     int
	first, last Stamp
	complete    bool // the last sample had a row for every live process
	task        seriesSet
	memory      memorySeries
	processes   map[ProcessID]*ProcessWindow
	omitted     int
}

// Add takes a sample into the window. Samples come in the order of their collection.
func (w *Window) Add(s *Sample) {
	w.samples++
	if w.samples == 1 && w.first.Zero() {
		w.first = s.Stamp
	}
	w.task.add(s, s.Task)
	w.memory.add(s)
	w.addProcesses(s)
	w.last = s.Stamp
	w.complete = s.Omitted == 0
}

// Samples returns how many samples were added since the window began.
func (w *Window) Samples() int { return w.samples }

// Span returns the stamps between which the window's counters are measured: its first sample (or the last one
// of the window before, where Advance began it) and its last.
func (w *Window) Span() (first, last Stamp) { return w.first, w.last }

// Advance ends the window and begins the next where it ended: counters continue from their last readings, so
// that no growth is lost between windows; gauges, tallies and processes that have ended begin anew.
func (w *Window) Advance() {
	w.samples = 0
	w.first = w.last
	w.task.advance()
	w.memory = memorySeries{}
	w.advanceProcesses()
}

// Reduce returns one value of a task's measurement, or of memory_bytes, over the window; the other headlines
// are those of a sample (see Headlines) or reductions of what they are taken from. Where it cannot be measured
// the reading is absent with the reason. A reduction that its kind does not allow is an ErrIllegalReduction, a
// number that is not in the table an ErrUnknownMeasurement.
func (w *Window) Reduce(id ID, r Reduction) (Reading, error) {
	if id == HeadlineMemory {
		return w.memory.reduce(r)
	}
	reading, err := w.task.reduce(id, r, TaskScope)
	if r == Rate && err == nil {
		reading = withoutLate(reading, func(late ID) Reading {
			part, _ := w.task.reduce(late, Rate, TaskScope)
			return part
		})
	}
	return reading, err
}

// MaxAt returns when the largest reading of a gauge was taken; ok is false where none was.
func (w *Window) MaxAt(id ID) (at Stamp, ok bool) {
	s := w.task.get(id)
	if id == HeadlineMemory {
		s = &w.memory.series
	}
	if s == nil || s.count == 0 || s.kind != Gauge {
		return Stamp{}, false
	}
	return s.maxAt, true
}

// memorySeries is memory_bytes over a window: it is chosen in each sample, and means one thing only as long as
// it is chosen from the same measurement.
type memorySeries struct {
	series
	source  string
	changed bool
}

func (m *memorySeries) add(s *Sample) {
	m.id, m.kind = HeadlineMemory, Gauge
	v := memoryHeadline(s)
	if v.Reading.Present() {
		m.changed = m.changed || m.source != "" && m.source != v.Source
		m.source = v.Source
	}
	m.series.add(v.Reading, s.Stamp)
}

func (m *memorySeries) reduce(r Reduction) (Reading, error) {
	m.id, m.kind = HeadlineMemory, Gauge
	if m.changed && Gauge.Allows(r) {
		return AbsentReading(HeadlineMemory, reasonSource), nil
	}
	return seriesSet{m.series}.reduce(HeadlineMemory, r, HeadlineScope)
}

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
	*set = slices.Grow(*set, max(0, len(readings)-len(*set)))
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
		_, s.broken = CounterReading{Value: value, At: at.Mono}.GrowthSince(s.last())
	}
}

func (set seriesSet) reduce(id ID, r Reduction, scope Scope) (Reading, error) {
	m := rowOf(id)
	switch {
	case m == nil:
		return Reading{}, fmt.Errorf("%s of number %d: %w", r, id, ErrUnknownMeasurement)
	case m.Scope != scope:
		return Reading{}, fmt.Errorf("%s of %s, of scope %s: %w", r, m.Name, m.Scope, ErrIllegalReduction)
	case !m.Kind.Allows(r):
		return Reading{}, fmt.Errorf("%s of %s, a %s (legal: %s): %w",
			r, m.Name, m.Kind, legalReductions(m.Kind), ErrIllegalReduction)
	case r == Tally:
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

// last is the last reading of a counter.
func (s *series) last() CounterReading { return CounterReading{Value: s.lastNumber, At: s.lastAt.Mono} }

// growth is the delta or the rate of a counter.
func (s *series) growth(r Reduction) Reading {
	switch {
	case s.broken != "":
		return AbsentReading(s.id, s.broken)
	case s.baseAt.same(s.lastAt):
		return AbsentReading(s.id, reasonOne)
	}
	base, last := CounterReading{Value: s.base, At: s.baseAt.Mono}, s.last()
	if r == Rate {
		return last.rateSince(s.id, base)
	}
	growth, reason := last.GrowthSince(base)
	if reason != "" {
		return AbsentReading(s.id, reason)
	}
	return NumberReading(s.id, growth)
}
