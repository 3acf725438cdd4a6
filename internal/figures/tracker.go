// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package figures

import (
	"slices"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Tracker follows the readings of one task through its starts. Taking a reading costs next to nothing: headlines and
// counters are made on request. Its methods are not safe for concurrent use.
type Tracker struct {
	cpus      int
	run       int // counts the starts of the task
	startedAt time.Time
	running   bool
	newest    reading
	// inhabited is the newest reading that was taken while the task had a process.
	inhabited reading
	// gap says that nothing was read for a while: no rate is measured from newest.
	gap      bool
	baseline *procstats.Sample
	largest  procstats.Largest
	// counters include the readings until counted. What was published must not fall, as a headline does that is taken
	// from another source for once.
	counters Counters
	counted  *procstats.Sample
	totals   Totals
}

// reading is a sample with the one that its rates are measured from, which may be nil.
type reading struct {
	sample, before *procstats.Sample
	headlines      []procstats.HeadlineValue // made when they are asked for; never changed
}

// NewTracker returns a tracker of a task on a machine with so many CPUs. run counts the starts until now, and totals
// are those of the starts that have ended.
func NewTracker(cpus, run int, totals Totals) *Tracker {
	return &Tracker{cpus: cpus, run: run, totals: totals, gap: true}
}

// Begin is called when a start of the task runs, or was found running.
func (t *Tracker) Begin(run int, startedAt time.Time) {
	*t = Tracker{cpus: t.cpus, run: run, startedAt: startedAt, running: true, totals: t.totals, gap: true}
}

// Run returns the number of the present or last start.
func (t *Tracker) Run() int { return t.run }

// MeasureFrom sets the sample that the rates of the first reading of a stream are measured from; it may be nil.
func (t *Tracker) MeasureFrom(baseline *procstats.Sample) { t.baseline = baseline }

// Break says that nothing is read for a while: no rate is measured over the gap.
func (t *Tracker) Break() { t.gap = true }

// Since returns how long after the reading before it a sample was taken; ok is false after a gap.
func (t *Tracker) Since(s *procstats.Sample) (time.Duration, bool) {
	if t.gap {
		return 0, false
	}
	return s.Mono - t.newest.sample.Mono, true
}

// Take makes a sample the newest reading.
func (t *Tracker) Take(s *procstats.Sample) {
	before := t.newest.sample
	if t.gap {
		before = t.baseline
	}
	switch {
	case !SameReadings(s, t.newest.sample):
		t.largest.Add(s)
	case t.counted == t.newest.sample:
		t.counted = s // nothing can have risen
	}
	t.newest = reading{sample: s, before: before}
	t.gap, t.baseline = false, nil
	if record.Inhabited(s) {
		t.inhabited = t.newest
	}
}

// Asleep reports whether the newest reading has the very numbers of the one before, as those of a quiet task have: its
// rates are 0. What reading the task costs is no matter.
func (t *Tracker) Asleep() bool {
	now, before := t.newest.sample, t.newest.before
	return SameReadings(now, before) || now != nil && before != nil && now.Checked.Zero() &&
		slices.EqualFunc(now.Task, before.Task, func(a, b procstats.Reading) bool {
			return a == b || a.ID() == b.ID() && ofExecutor(a.ID())
		})
}

func ofExecutor(id procstats.ID) bool {
	m, _ := procstats.Lookup(id)
	return m.Source == procstats.SourceExecutor
}

// SameReadings reports whether two samples share their readings, as those of a quiet task do.
func SameReadings(a, b *procstats.Sample) bool {
	return a != nil && b != nil && len(a.Task) > 0 && len(a.Task) == len(b.Task) && &a.Task[0] == &b.Task[0]
}

// End is called when the task does not run any more, with its final record, and returns the totals with this start. The
// last reading stays.
func (t *Tracker) End(final *record.Record) Totals {
	t.running = false
	t.totals = t.totals.add(t.run, final, t.Counters())
	return t.totals
}

// Figures returns what is known now, without what the tracker's owner knows: reasons, intervals and counts of readings.
func (t *Tracker) Figures() *Figures {
	return &Figures{
		Running: t.running, Totals: t.totals, Counted: t.totals.Run == t.run, Counters: t.Counters(),
		Sample: t.newest.sample, Before: t.newest.before, Headlines: t.headlines(&t.newest),
	}
}

// Last returns the newest reading that was taken while the task had a process, with its headlines; nil if there is
// none.
func (t *Tracker) Last() (*procstats.Sample, []procstats.HeadlineValue) {
	return t.inhabited.sample, t.headlines(&t.inhabited)
}

// Counters returns the highest reading of each counter in the present or last start. They include every reading that
// Figures were made of, the last one with a process, and the newest.
func (t *Tracker) Counters() Counters {
	if t.newest.sample == nil || t.counted == t.newest.sample {
		return t.counters
	}
	raised := append(make(Counters, 0, max(len(t.counters), 64)), t.counters...)
	for _, r := range []*reading{&t.inhabited, &t.newest} {
		if r.sample == nil || r == &t.inhabited && r.sample == t.newest.sample {
			continue
		}
		for _, read := range r.sample.Task {
			raised.raise(read)
		}
		for _, h := range t.headlines(r) {
			raised.raise(h.Reading)
		}
	}
	t.counters, t.counted = slices.Clip(raised), t.newest.sample
	return t.counters
}

// Measurements returns the counters of the present or last start by name, as a record has them.
func (t *Tracker) Measurements() map[string]any {
	all := map[string]any{}
	for _, c := range t.Counters() {
		all[c.ID.String()] = c.Value
	}
	return all
}

// headlines returns the headlines of a reading, made once; nil if there is none.
func (t *Tracker) headlines(r *reading) []procstats.HeadlineValue {
	if r.headlines == nil && r.sample != nil {
		r.headlines = t.make(nil, r)
	}
	return r.headlines
}

// scrap is memory for one reading that nothing refers to afterwards.
type scrap struct {
	sample procstats.Sample
	list   []procstats.HeadlineValue
}

//nolint:gochecknoglobals // a pool is shared
var scratch = sync.Pool{New: func() any { return new(scrap) }}

func (w *scrap) free() {
	w.sample.Reset()
	clear(w.list)
	scratch.Put(w)
}

// WithHeadlines calls a function with the headlines of the newest reading, which must not keep them.
func (t *Tracker) WithHeadlines(use func([]procstats.HeadlineValue)) {
	if t.newest.headlines != nil {
		use(t.newest.headlines)
		return
	}
	w := scratch.Get().(*scrap)
	defer w.free()
	w.list = t.make(w.list, &t.newest)
	use(w.list)
}

func (t *Tracker) make(list []procstats.HeadlineValue, r *reading) []procstats.HeadlineValue {
	past := procstats.History{Previous: r.before, Largest: t.largest, CPUs: t.cpus}
	if !t.startedAt.IsZero() {
		past.Elapsed = r.sample.Wall.Sub(t.startedAt)
	}
	return procstats.HeadlinesInto(list, r.sample, past)
}
