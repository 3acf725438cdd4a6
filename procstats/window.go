// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"errors"
	"fmt"
	"maps"
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
	processes   map[ProcessID]*processSeries
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
	if m := rowOf(id); m != nil && m.Scope != TaskScope {
		return Reading{}, fmt.Errorf("%s of %s, of scope %s: %w", r, m.Name, m.Scope, ErrIllegalReduction)
	}
	reading, err := w.task.reduce(id, r)
	if id == TreeCPU && r == Rate && err == nil {
		late, _ := w.task.reduce(TreeCPULate, Rate)
		reading = reading.without(late)
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

// Tally counts in how many readings each state of a category was seen; of a process's measurement, over all
// processes of the window. It is nil where none was.
func (w *Window) Tally(id ID) map[string]int {
	if s := w.task.get(id); s != nil {
		return maps.Clone(s.tally)
	}
	var sum map[string]int
	for _, p := range w.processes {
		for state, n := range p.series.tally(id) {
			if sum == nil {
				sum = map[string]int{}
			}
			sum[state] += n
		}
	}
	return sum
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
	return seriesSet{m.series}.reduce(HeadlineMemory, r)
}
