// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"slices"
	"sync"
	"time"

	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/series"
)

const (
	// trackSpan and trackStep are what a small line in the table of tasks shows.
	trackSpan = 5 * time.Minute
	trackStep = 5 * time.Second
	// trackBudget bounds the time that one page spends on reading histories; the others come with the next one.
	trackBudget = 150 * time.Millisecond
	// keepUnseen is how long the past of a task is remembered after the last look at it.
	keepUnseen = 2 * time.Minute
)

// past remembers the recent past of the tasks that are being looked at: a history is read from a file, as a whole,
// which is too much for every task and every second.
type past struct {
	agent Agent
	now   func() time.Time

	mu      sync.Mutex // guards following
	tracks  map[string]*track
	records map[string]*record.Record
	began   time.Time
}

func newPast(a Agent, now func() time.Time) *past {
	return &past{agent: a, now: now, tracks: map[string]*track{}, records: map[string]*record.Record{}}
}

// begin starts a page's budget and drops the tasks without readers.
func (p *past) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = p.now()
	for key, t := range p.tracks {
		if now.Sub(t.seen) > keepUnseen {
			delete(p.tracks, key)
		}
	}
}

// of returns the recent past of a task with its newest reading last; the reading has no rates if the past has none.
func (p *past) of(a task, now time.Time) (before *moment, newest moment, recent []moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tracks[a.Key()]
	if t == nil {
		t = &track{restarts: -1}
		p.tracks[a.Key()] = t
	}
	t.seen = now
	if p.stale(t, a, now) && p.now().Sub(p.began) < trackBudget {
		p.read(t, a, now)
	}
	for len(t.moments) > 0 && t.moments[0].Wall.Before(now.Add(-trackSpan-trackStep)) {
		t.moments = t.moments[1:]
	}
	recent = t.moments
	if a.usage.Sample == nil || !a.usage.Running {
		return nil, newest, recent
	}
	newest = liveMoment(a.usage, t.moments)
	before = rateBase(t.moments, &newest)
	if n := len(t.moments); n == 0 || newest.Wall.Sub(t.moments[n-1].Wall) >= trackStep {
		t.moments = append(t.moments, newest)
	}
	return before, newest, t.moments
}

// stale reports that the history has to be asked: no page was open for a while, the task was started anew, or readings
// have stopped, which the history knows the reason of.
func (p *past) stale(t *track, a task, now time.Time) bool {
	if t.readAt.IsZero() || t.restarts != a.state.State.Restarts {
		return true
	}
	n := len(t.moments)
	return (n == 0 || now.Sub(t.moments[n-1].Wall).Abs() > 3*trackStep) && now.Sub(t.readAt).Abs() > 3*trackStep
}

func (p *past) read(t *track, a task, now time.Time) {
	t.readAt, t.restarts = now, a.state.State.Restarts
	points, err := p.agent.History(a.allocation.ID, a.state.Name,
		series.Query{Since: now.Add(-trackSpan - trackStep), Until: now.Add(time.Minute), Step: trackStep})
	if err != nil {
		return // there is no past yet, or not any more: the line stays empty
	}
	// A new list: pages that are being made read the old one.
	t.moments = momentsOf(points)
}

// lastRecord returns the final record of the last start of a task that has ended, which never changes; nil if there is
// none.
func (p *past) lastRecord(a task) *record.Record {
	key := a.Key()
	if !a.dead() {
		key += " " + a.state.State.Exit.At.String()
	}
	p.mu.Lock()
	r, known := p.records[key]
	p.mu.Unlock()
	if known {
		return r
	}
	r, err := p.agent.Record(a.allocation.ID, a.state.Name)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records) >= mostRecords {
		clear(p.records)
	}
	p.records[key] = r
	return r
}

// mostRecords bounds the records that are remembered.
const mostRecords = 1000

// moment is a reading, or a gap.
type moment = figures.Moment

// momentsOf returns the points of a history.
func momentsOf(points []series.Point) []moment {
	moments := make([]moment, 0, len(points)+1)
	for _, point := range points {
		moments = append(moments, momentOf(point))
	}
	return moments
}

func momentOf(p series.Point) moment {
	if p.Gap != series.NoGap {
		return figures.NewGap(p.Stamp, p.Run, p.Gap)
	}
	number := func(id procstats.ID) (value float64, ok bool) {
		value, ok = p.Values[id]
		return value, ok
	}
	m := figures.MomentOfValues(p.Stamp, p.Run, number)
	for q, id := range map[figures.Quantity]procstats.ID{
		figures.Memory: procstats.HeadlineMemory, figures.MemoryCharged: procstats.HeadlineMemoryCharged,
	} {
		if highest, ok := p.Value(id, procstats.Max); ok {
			m.Raise(q, highest) // a peak within the step must not be lost
		}
	}
	return m
}

// liveMoment returns the newest reading of a task, which is of the start that the moments before it end with.
func liveMoment(f *figures.Figures, before []moment) moment {
	run := 0
	if n := len(before); n > 0 {
		run = before[n-1].Run
	}
	return figures.MomentOf(f.Sample.Stamp, run, f.Sample.Task.Number, f.Headlines)
}

// rateBase returns the moment that the rates of the newest one are measured from; nil if there is none.
func rateBase(moments []moment, newest *moment) *moment {
	if m, whole := since(moments, newest, trackStep-time.Second); whole {
		return m
	}
	return nil
}

// track is the recent past of a task, oldest first, with one moment a step.
type track struct {
	moments []moment
	// run is how many starts the task had when the track was read; another number makes it stale.
	restarts int
	// readAt is when the history was asked.
	readAt time.Time
	seen   time.Time
}

// since returns the youngest moment that is at least a span older than the newest one, else the oldest; whole says
// which. Counters went on from it; it is nil if there is none.
func since(moments []moment, newest *moment, span time.Duration) (from *moment, whole bool) {
	for i := range slices.Backward(moments) {
		m := &moments[i]
		switch {
		case m.Mono >= newest.Mono && m.Run == newest.Run && m.Gap == series.NoGap: // the same reading, looked at twice
			continue
		case !newest.Follows(m):
			return from, false
		}
		if from = m; newest.Mono-m.Mono >= span {
			return from, true
		}
	}
	return from, false
}
