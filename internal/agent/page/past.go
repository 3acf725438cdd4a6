// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
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

// span is how much time a page's charts show. On says that it is the one that is shown.
type span struct {
	Word, Label, Link string
	On                bool
	size              time.Duration
}

const (
	// customary is the default span.
	customary = 15 * time.Minute
	shortest  = 10 * time.Second
)

// spansOf are the spans that can be chosen for a task: all that is kept of its life, and round ones that are shorter.
func spansOf(t task, until time.Time, kept time.Duration) []span {
	life, label := until.Sub(t.born()), "all"
	if life > kept {
		life, label = kept, procstats.Seconds.Text(kept.Seconds())
	}
	var list []span
	for _, word := range []string{"5m", "15m", "1h", "6h", "24h", "168h"} {
		if size, _ := time.ParseDuration(word); size < life { // they are durations
			list = append(list, span{Word: word, Label: procstats.AgeText(size), size: size})
		}
	}
	return append(list, span{Word: "all", Label: label, size: chart.RoundSpan(max(life, shortest))})
}

// born is when the task was first there.
func (t task) born() time.Time {
	born := t.allocation.CreateTime
	if started := t.state.State.StartedAt; born.IsZero() || (!started.IsZero() && started.Before(born)) {
		born = started
	}
	return born
}

// choose marks the span with a word, else the customary one, else the whole life, and returns it. A word that is a
// duration is a span of its own, up to all that is kept.
func choose(list []span, word string) span {
	chosen, whole := slices.IndexFunc(list, func(s span) bool { return s.Word == word }), len(list)-1
	if chosen < 0 {
		if size, err := time.ParseDuration(word); err == nil && size >= shortest {
			return span{Word: word, size: min(size.Round(time.Second), list[whole].size)}
		}
		chosen = slices.IndexFunc(list, func(s span) bool { return s.size == customary || s.Word == "all" })
	}
	list[chosen].On = true
	return list[chosen]
}

// window is the time that charts show.
type window struct {
	span
	until, latest time.Time
	// fixed says that it does not follow the clock.
	fixed bool
	// with is the key of the task that is drawn beside this one; empty for none.
	with string
}

// momentOfDay reads a moment that a reader has typed: a time of the last 24 hours, or with its date.
func momentOfDay(text string, latest time.Time) (time.Time, bool) {
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.TimeOnly, "15:04"} {
		at, err := time.ParseInLocation(layout, text, time.Local)
		switch {
		case err != nil:
			continue
		case at.Year() > 0:
			return at, true
		}
		l := latest.Local()
		at = time.Date(l.Year(), l.Month(), l.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.Local)
		if at.After(latest) {
			at = at.AddDate(0, 0, -1)
		}
		return at, true
	}
	return latest, false
}

// windowOf is the window that a page's address asks for: a span, and its end if that is not the latest, in seconds
// since 1970 or as a moment that a reader has typed.
func windowOf(spans []span, query url.Values, born, latest time.Time) window {
	w := window{span: choose(spans, query.Get("span")), until: latest, latest: latest, with: query.Get("with")}
	asked := query.Get("until")
	seconds, err := strconv.ParseInt(asked, 10, 64)
	until, known := time.Unix(seconds, 0).In(latest.Location()), err == nil
	if !known {
		until, known = momentOfDay(asked, latest)
	}
	if known && until.Before(latest) && until.After(born) {
		w.until, w.fixed = until, true
	}
	return w
}

// link is the address of a window of another size and end.
func (w window) link(path string, size time.Duration, until time.Time) string {
	values := url.Values{"span": {w.Word}}
	if w.with != "" {
		values.Set("with", w.with)
	}
	if size != w.size {
		values.Set("span", size.Round(time.Second).String())
	}
	if until.Before(w.latest) {
		values.Set("until", strconv.FormatInt(until.Unix(), 10))
	}
	return path + "?" + values.Encode() + "#history-title"
}

// Picked is the end of a window that does not follow the clock, for a form.
func (w window) Picked() string {
	if !w.fixed {
		return ""
	}
	return w.until.Local().Format(time.DateTime)
}

// moves are the links to the windows around this one.
func (w window) moves(path string, longest time.Duration) (list []choice) {
	half, center := w.size/2, time.Duration(0) // a window that follows the clock keeps its end
	if w.fixed {
		center = w.size / 2
	}
	move := func(key, label string, size, later time.Duration) {
		list = append(list, choice{Key: key, Label: label, Link: w.link(path, size, w.until.Add(later))})
	}
	move("‹", "earlier", w.size, -half)
	if w.fixed {
		move("›", "later", w.size, half)
	}
	if half >= shortest {
		move("+", "zoom in", half, -center/2)
	}
	if 2*w.size <= longest {
		move("−", "zoom out", 2*w.size, center)
	}
	return list
}
