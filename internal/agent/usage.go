// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// usage takes the readings of one task: the newest for whoever asks, and all into the history.
type usage struct {
	log      hclog.Logger
	history  *series.Queue
	interval time.Duration // between readings
	keep     time.Duration // between readings that are kept
	cpus     int           // of the machine
	counts   *counts

	// err is why there are no readings: that of the stats hook.
	err func() error
	// look has the processes of the task read for every sample for a while; nil if the driver cannot.
	look atomic.Pointer[func()]
	// paced is the interval that the driver has stretched the requested one to, 0 if it has not; nil before there is a stream.
	paced atomic.Pointer[func() time.Duration]

	// saving orders what goes into the history, and guards stored.
	saving sync.Mutex
	stored *procstats.Sample // the newest there; nil behind a gap

	mu        sync.Mutex // guards following
	run       int        // counts the starts of the task
	startedAt time.Time
	running   bool
	sample    *procstats.Sample
	before    *procstats.Sample // that the rates of sample are measured from; nil behind a gap
	previous  *procstats.Sample // the one before the next; nil behind a gap
	baseline  *procstats.Sample // what the stream has to measure its first sample's rates from
	headlines []procstats.HeadlineValue
	// headlinesOf is the sample that headlines were made of, or brought up to date for: see refresh.
	headlinesOf *procstats.Sample
	lent        bool              // headlines have another reader, who may have them for good
	largest     procstats.Largest // readings of this run
	kept        time.Duration     // when the newest kept reading was taken, on the monotonic clock
	same        bool              // all since then have its numbers
	arrived     time.Time         // when the newest reading came
	backlog     backlog
	// lived is the newest reading that was taken while the task had a process.
	lived reading
	// counters are the most that those of the present start were read at: what was published must not fall, as a headline
	// does that is taken from another source for once.
	counters     allocation.Counters
	countersLent bool // counters have another reader
	totals       allocation.Totals
}

// reading is a sample with its headlines.
type reading struct {
	sample    *procstats.Sample
	headlines []procstats.HeadlineValue
}

var _ hook.StatsUpdater = (*usage)(nil)

// begin is called when a start of the task runs, also one of an earlier agent.
func (u *usage) begin(run int, startedAt time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.run, u.startedAt, u.running = run, startedAt, true
	u.sample, u.before, u.headlines, u.headlinesOf = nil, nil, nil, nil
	u.previous, u.baseline, u.largest, u.kept = nil, nil, procstats.Largest{}, 0
	u.lived, u.counters, u.countersLent = reading{}, nil, false
}

// end is called when the task does not run any more, and returns its totals with this start. Its last reading stays.
func (u *usage) end(final *record.Record) allocation.Totals {
	u.look.Store(nil) // else they hold the stream and its samples
	u.paced.Store(nil)
	u.mu.Lock()
	u.running = false
	u.totals = addStart(u.totals, u.run, final, u.counters)
	totals := u.totals
	u.mu.Unlock()
	if final != nil && final.End().Outcome == record.OOMKilled {
		u.mark(series.GapOOM)
	} else {
		u.mark(series.GapTask)
	}
	return totals
}

// mark says in the history that nothing is read from now on.
func (u *usage) mark(why series.Gap) {
	u.saving.Lock()
	defer u.saving.Unlock()
	u.stored = nil
	u.mu.Lock()
	u.forget()
	run := u.run
	u.mu.Unlock()
	u.history.Mark(kernel.Now(), run, why)
}

// forget sees to it that no rate is measured over a gap, and that the reading behind it is kept.
func (u *usage) forget() { u.previous, u.kept = nil, 0 }

// silence is the time without readings from which on it is a gap: a collection or two that take long are none.
func (u *usage) silence() time.Duration { return max(5*u.expected(), 10*time.Second) }

// expected is the time between two readings now.
func (u *usage) expected() time.Duration {
	if paced := u.paced.Load(); paced != nil {
		return max(u.interval, (*paced)())
	}
	return u.interval
}

// measureFrom takes the sample that the rates of a new stream's first one are measured from; nil if there is none.
func (u *usage) measureFrom(baseline *procstats.Sample) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.baseline = baseline
}

// looked is called when somebody looks at the task.
func (u *usage) looked() {
	if look := u.look.Load(); look != nil {
		(*look)()
	}
}

// UpdateStats implements hook.StatsUpdater.
func (u *usage) UpdateStats(s *procstats.Sample) {
	u.saving.Lock()
	defer u.saving.Unlock()
	t := u.take(s)
	// Without the lock that readers take: a log may block.
	if t.late > 0 {
		u.log.Warn("collect stats: a sample took longer than collection_interval; raise the interval or reduce the load of the machine",
			"collection_interval", u.interval, "measured", t.late)
	}
	if t.silent {
		u.stored = nil
		u.history.Mark(s.Stamp, t.run, series.GapSilent)
	}
	if t.due {
		if !t.same || u.stored == nil || !u.history.Again(s.Stamp, t.run, procstats.RowsAge(s)) {
			u.store(s, t.run, u.fresh(t))
		}
		u.stored = s
	}
}

// taken is what follows from a sample.
type taken struct {
	run       int
	silent    bool          // nothing came for a while before it
	due       bool          // it goes into the history
	same      bool          // its numbers are those of the newest there, but for the age of its processes
	late      time.Duration // how long it took, if it is the first late one of an episode
	headlines []procstats.HeadlineValue
}

// take makes a sample the newest.
func (u *usage) take(s *procstats.Sample) (t taken) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.samples.Add(1)
	if u.previous != nil {
		took := s.Mono - u.previous.Mono
		late, first := u.backlog.observe(took, u.expected())
		if late {
			u.counts.backlogged.Add(1)
		}
		if first {
			t.late = took
		}
		if t.silent = took > u.silence(); t.silent {
			u.forget()
		}
	}
	again, asleep := sharesReadings(s, u.previous), sharesReadings(u.previous, u.before)
	inhabited := again && u.lived.sample == u.previous || !again && record.Inhabited(s)
	if !inhabited {
		u.refresh() // of the last one with a process
	}
	if !again {
		u.largest.Add(s)
	}
	u.before = cmp.Or(u.previous, u.baseline)
	u.baseline = nil
	unchanged := again && asleep && procstats.Lasting(u.headlines)
	if !unchanged {
		u.makeHeadlines(s, inhabited)
	}
	u.same = u.same && unchanged
	if !again {
		if u.countersLent {
			u.counters, u.countersLent = slices.Clone(u.counters), false
		}
		raiseCounters(&u.counters, s, u.headlines)
	}
	if inhabited {
		u.lived = reading{s, u.headlines}
	}
	u.previous, u.sample, u.arrived = s, s, time.Now()
	// A reading a little early is the next one all the same.
	if t.due = u.kept == 0 || s.Mono-u.kept >= u.keep-u.interval/2; t.due {
		t.same, u.same, u.kept = u.same, true, s.Mono
	}
	if t.due && !t.same {
		u.refresh()
	}
	t.run, t.headlines = u.run, u.headlines
	return t
}

// makeHeadlines makes the headlines of a new sample, in the memory of those before if nobody else has it.
func (u *usage) makeHeadlines(s *procstats.Sample, inhabited bool) {
	if u.lent || !inhabited {
		u.headlines, u.lent = slices.Clone(u.headlines), false
	}
	u.headlines = withDriversOwn(procstats.HeadlinesInto(u.headlines, s, u.past(s)), s)
	u.headlinesOf = s
}

// refresh brings the headlines up to date: while a task sleeps those that move with the time are left until somebody asks.
func (u *usage) refresh() {
	if u.sample == u.headlinesOf {
		return
	}
	if u.lent {
		u.headlines, u.lent = slices.Clone(u.headlines), false
	}
	procstats.HeadlinesLater(u.headlines, u.sample, u.past(u.sample))
	u.headlinesOf = u.sample
	if u.lived.sample == u.sample {
		u.lived.headlines = u.headlines
	}
}

// fresh returns the headlines of what was taken, brought up to date: of a sample that is the same as the one before they were left, and
// those who ask may do it at any time.
func (u *usage) fresh(t taken) []procstats.HeadlineValue {
	if !t.same {
		return t.headlines
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refresh()
	u.lent = true
	return u.headlines
}

// past is what is known of the time before a sample.
func (u *usage) past(s *procstats.Sample) procstats.History {
	past := procstats.History{Previous: u.before, Largest: u.largest, CPUs: u.cpus}
	if !u.startedAt.IsZero() {
		past.Elapsed = s.Wall.Sub(u.startedAt)
	}
	return past
}

// sharesReadings reports whether a sample has the very readings of the one before, as those of a quiet task have.
func sharesReadings(s, before *procstats.Sample) bool {
	return s != nil && before != nil && len(s.Task) > 0 && len(s.Task) == len(before.Task) && &s.Task[0] == &before.Task[0]
}

// withDriversOwn puts in what a driver that is not ours computed itself: it sends a percentage, and no counter from
// which one could be computed.
func withDriversOwn(headlines []procstats.HeadlineValue, s *procstats.Sample) []procstats.HeadlineValue {
	for i := range headlines {
		h := &headlines[i]
		if v, ok := s.Task.Number(h.ID); ok && !h.Reading.Present() {
			h.Reading, h.Source, h.Guarantee = procstats.NumberReading(h.ID, v), "the driver", procstats.Sampled
		}
	}
	return headlines
}

// store puts the sample and its headlines into the history, and of its processes the largest.
func (u *usage) store(s *procstats.Sample, run int, headlines []procstats.HeadlineValue) {
	kept := u.history.Copy(s)
	for _, h := range headlines {
		// The average since the start moves as time passes, when the task does nothing: a point would never be the one before again.
		if v, ok := h.Reading.Number(); ok && h.ID != procstats.HeadlineCoresAverage {
			kept.Task.Put(procstats.NumberReading(h.ID, v))
		}
	}
	kept.Processes = series.Top(s, u.stored)
	u.history.Add(kept, run)
}

// snapshot is what whoever asks gets.
func (u *usage) snapshot(notPublishing string) *allocation.Usage {
	err := u.err()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &allocation.Usage{
		Look: u.looked, Running: u.running, Interval: u.interval, Backlogged: u.backlog.late, HistoryDropped: u.history.Dropped(),
		Totals: u.totals, Counted: u.totals.Run == u.run,
	}
	switch {
	case notPublishing != "":
		s.Reason = notPublishing
		return s
	case !u.running:
		s.Reason = "the task is not running"
	case err != nil:
		s.Reason = fmt.Sprintf("no fresh reading: %s", err)
	case u.sample != nil && time.Since(u.arrived) > u.silence():
		s.Reason = "no fresh reading: " + series.GapSilent.String()
	}
	u.refresh()
	u.lent, u.countersLent = true, true
	s.Sample, s.Before, s.Headlines, s.Counters = u.sample, u.before, u.headlines, u.counters
	return s
}
