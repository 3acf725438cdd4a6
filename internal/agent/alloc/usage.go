// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// NewHistory returns the writer of the readings of tasks. failed is called when readings cannot be written.
func NewHistory(log hclog.Logger, failed func()) *series.Writer {
	boot, err := kernel.BootID(kernel.HostFS())
	if err != nil { // boots cannot be told apart: the clocks are those of this process
		boot = time.Now().String()
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(boot)) // never fails
	return series.NewWriter(series.Clock{Boot: hash.Sum32() | 1, Suspended: kernel.Suspended}, log, failed)
}

// usage takes the readings of one task: all go into its figures, and those that are due into the history.
type usage struct {
	log      hclog.Logger
	history  *series.Queue
	interval time.Duration // between readings
	keep     time.Duration // between readings in the history
	counts   *Counts
	pulse    *Pulse

	// err says why there are no readings: it is that of the stats hook.
	err func() error
	// stream is the stream of the running start; nil before and after.
	stream atomic.Pointer[statsStream]

	saving sync.Mutex        // orders what goes into the history, and guards following
	stored *procstats.Sample // the newest reading there; nil after a gap
	asleep bool              // the numbers of stored, rates included, are those of the next reading if nothing moves

	mu      sync.Mutex // guards following; never held while something blocks
	tracker *figures.Tracker
	due     time.Duration // when the next reading goes into the history, on the monotonic clock; 0 for the next one
	arrived time.Time     // when the newest reading came
	backlog backlog
}

// begin is called when a start of the task runs, also one of an earlier agent.
func (u *usage) begin(run int, startedAt time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tracker.Begin(run, startedAt)
	u.due = 0
}

// end is called when the task does not run any more, and returns its totals with this start. Its last reading stays.
func (u *usage) end(final *record.Record) figures.Totals {
	u.stream.Store(nil)
	u.mu.Lock()
	totals := u.tracker.End(final)
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
	u.tracker.Break()
	u.due = 0
	run := u.tracker.Run()
	u.mu.Unlock()
	u.history.Mark(kernel.Now(), run, why)
}

// silence is the time without readings that makes a gap: a collection or two that take long do not.
func (u *usage) silence() time.Duration { return max(5*u.expected(), 10*time.Second) }

// expected is the time between two readings now.
func (u *usage) expected() time.Duration {
	if s := u.stream.Load(); s != nil {
		return max(u.interval, s.paced())
	}
	return u.interval
}

// measureFrom takes the sample that the rates of a new stream's first one are measured from; it may be nil.
func (u *usage) measureFrom(baseline *procstats.Sample) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tracker.MeasureFrom(baseline)
}

// looked is called when a client reads the task.
func (u *usage) looked() {
	if s := u.stream.Load(); s != nil {
		s.look()
	}
}

// UpdateStats implements hook.StatsUpdater.
func (u *usage) UpdateStats(s *procstats.Sample) {
	if u.again(s) {
		return
	}
	u.saving.Lock()
	defer u.saving.Unlock()
	u.mu.Lock()
	late, silent, why := u.observe(s)
	if silent {
		u.tracker.Break()
		u.stored, u.due = nil, 0
	}
	isDue := u.take(s)
	asleep, run := u.tracker.Asleep(), u.tracker.Run()
	u.mu.Unlock()
	if late > 0 { // logged without the lock that readers take: a log may block
		const text = "collect stats: a sample took longer than collection_interval; " +
			"raise the interval or reduce the load of the machine"
		u.log.Warn(text, "collection_interval", u.interval, "measured", late)
	}
	if silent {
		u.history.Mark(s.Stamp, run, why)
	}
	if isDue {
		u.save(s, run, asleep)
	}
}

// again takes a reading like the one before, of a task that sleeps, of which the history is only told that nothing has
// changed. It returns false for one that UpdateStats has more to do with.
func (u *usage) again(s *procstats.Sample) bool {
	u.saving.Lock()
	defer u.saving.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	took, ok := u.tracker.Since(s)
	if !ok || took > 2*u.expected() || !u.asleep || !figures.SameReadings(s, u.stored) ||
		s.Mono >= u.due && !u.history.Again(s.Stamp, u.tracker.Run(), procstats.RowsAge(s)) {
		return false
	}
	_, _, _ = u.observe(s) // it is not late
	if u.take(s) {
		u.stored = s
	}
	return true
}

// take makes a sample the newest, and reports whether it goes into the history.
func (u *usage) take(s *procstats.Sample) (isDue bool) {
	u.tracker.Take(s)
	u.arrived = time.Now()
	if isDue = s.Mono >= u.due; isDue {
		u.due = s.Mono + u.keep - u.interval/2 // one that comes a little early is the next one all the same
	}
	return isDue
}

// observe counts a sample. It returns how long the sample took if it is the first late one of an episode, and whether
// nothing came for so long that there is a gap, and why.
func (u *usage) observe(s *procstats.Sample) (late time.Duration, silent bool, why series.Gap) {
	u.counts.Samples.Add(1)
	took, ok := u.tracker.Since(s)
	if !ok {
		return 0, false, why
	}
	if took > u.expected() && u.pulse.StoodSince(s.Mono-took) { // which is told once, and not for each task
		return 0, took > u.silence(), series.GapAgent
	}
	isLate, first := u.backlog.observe(took, u.expected())
	if isLate {
		u.counts.Backlogged.Add(1)
	}
	if first {
		late = took
	}
	return late, took > u.silence(), series.GapSilent
}

// save puts the newest sample into the history.
func (u *usage) save(s *procstats.Sample, run int, asleep bool) {
	kept := u.history.Copy(s)
	u.mu.Lock()
	u.tracker.WithHeadlines(func(list []procstats.HeadlineValue) {
		u.asleep = asleep && procstats.Lasting(list)
		for _, h := range list {
			// The average since the start moves with the time: a point would never equal the one before.
			if v, ok := h.Reading.Number(); ok && h.ID != procstats.HeadlineCoresAverage {
				kept.Task.Put(procstats.NumberReading(h.ID, v))
			}
		}
	})
	u.mu.Unlock()
	kept.Processes = series.Top(s, u.stored)
	u.history.Add(kept, run)
	u.stored = s
}

// figures returns what is known of the task now, or only why nothing is read.
func (u *usage) figures(notPublishing string) *figures.Figures {
	err := u.err()
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.tracker.Figures()
	f.Look, f.Interval, f.Backlogged, f.HistoryDropped = u.looked, u.interval, u.backlog.late, u.history.Dropped()
	switch {
	case notPublishing != "":
		f.Reason, f.Sample, f.Before, f.Headlines, f.Counters = notPublishing, nil, nil, nil, nil
	case !f.Running:
		f.Reason = "the task is not running"
	case err != nil:
		f.Reason = fmt.Sprintf("no fresh reading: %s", err)
	case f.Sample != nil && time.Since(u.arrived) > u.silence():
		f.Reason = "no fresh reading: " + series.GapSilent.String()
	}
	return f
}

// measurements returns the counters of the present or last start by name, as a record has them.
func (u *usage) measurements() map[string]any {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tracker.Measurements()
}

// punctualSamples is how many samples in a row end an episode of late ones.
const punctualSamples = 10

// backlog counts the samples that came more than an interval late.
type backlog struct {
	late     int64
	episode  bool
	punctual int // samples in a row that were not late, in an episode
}

// observe is called with the time between two samples. It reports whether the second is late, and whether it is the
// first of an episode.
func (b *backlog) observe(between, interval time.Duration) (late, first bool) {
	if between <= 2*interval {
		if b.punctual++; b.punctual >= punctualSamples {
			b.episode = false
		}
		return false, false
	}
	first = !b.episode
	b.late++
	b.episode, b.punctual = true, 0
	return true, first
}

const (
	// beat is the time between two beats of a pulse, missed the time between two that says that it stood still.
	beat   = time.Second
	missed = 3 * beat
)

// Pulse knows when this process did not run, because it was stopped or starved, or the machine was suspended. What was
// late then is no fault of tasks, drivers or executors. A nil Pulse knows of nothing.
type Pulse struct {
	mu sync.Mutex // guards following
	// last is the last beat, by a clock that goes on while the machine is suspended; until is the end of the last time
	// for which it stood still, on the monotonic clock.
	last, until time.Duration
}

// Run beats until ctx is done, and logs each time for which this process did not run.
func (p *Pulse) Run(ctx context.Context, log hclog.Logger) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		if stood := p.beat(kernel.SinceBoot(), kernel.Now().Mono); stood >= missed {
			log.Warn("the agent did not run, and nothing was read: it was stopped or got no CPU, or the machine was suspended",
				"for", stood.Round(time.Second/10))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// beat returns the time since the last beat.
func (p *Pulse) beat(sinceBoot, mono time.Duration) (stood time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > 0 {
		stood = sinceBoot - p.last
	}
	if p.last = sinceBoot; stood >= missed {
		p.until = mono
	}
	return stood
}

// StoodSince reports whether this process did not run at some time after since, on the monotonic clock.
func (p *Pulse) StoodSince(since time.Duration) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until > since || p.last > 0 && kernel.SinceBoot()-p.last >= missed // which it has yet to notice
}
