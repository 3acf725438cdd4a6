// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"time"

	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// moment is a reading, or a gap: then it has no numbers.
type moment struct {
	figures.Moment
	gap series.Gap
}

// momentOf returns a point of the history.
func momentOf(p series.Point) moment {
	if p.Gap != series.NoGap {
		return moment{figures.Gap(p.Stamp, p.Run), p.Gap}
	}
	number := func(id procstats.ID) (value float64, ok bool) {
		value, ok = p.Values[id]
		return value, ok
	}
	m := moment{Moment: figures.MomentOfValues(p.Stamp, p.Run, number)}
	for q, id := range map[figures.Quantity]procstats.ID{
		figures.Memory: procstats.HeadlineMemory, figures.MemoryCharged: procstats.HeadlineMemoryCharged,
	} {
		if highest, ok := p.Value(id, procstats.Max); ok {
			m.Raise(q, highest) // a peak within the step must not be lost
		}
	}
	return m
}

// liveMoment returns the newest reading of a task.
func liveMoment(f *figures.Figures, run int) moment {
	return moment{Moment: figures.MomentOf(f.Sample.Stamp, run, f.Sample.Task.Number, f.Headlines)}
}

// follows reports whether counters went on from an earlier moment to this one.
func (m *moment) follows(earlier *moment) bool {
	return earlier.gap == series.NoGap && m.gap == series.NoGap && earlier.Run == m.Run && m.Mono > earlier.Mono
}

// rate is the growth of a quantity per second since an earlier moment, which may be nil, or NaN.
func (m *moment) rate(before *moment, q figures.Quantity) float64 { return m.Rate(before.reading(), q) }

// reading returns the numbers of a moment; nil for nil.
func (m *moment) reading() *figures.Moment {
	if m == nil {
		return nil
	}
	return &m.Moment
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

// before returns the youngest moment that counters go on from and that is at least a span older than now.
func (t *track) before(now *moment, span time.Duration) *moment {
	for i := len(t.moments) - 1; i >= 0; i-- {
		m := &t.moments[i]
		if m.Mono >= now.Mono && m.Run == now.Run && m.gap == series.NoGap {
			continue // the same reading, looked at twice
		}
		if !now.follows(m) {
			return nil
		}
		if now.Mono-m.Mono >= span {
			return m
		}
	}
	return nil
}

// add appends a reading once a step has gone by.
func (t *track) add(m moment, step time.Duration) {
	if n := len(t.moments); n == 0 || m.Wall.Sub(t.moments[n-1].Wall) >= step {
		t.moments = append(t.moments, m)
	}
}

// forget drops what is older than a moment.
func (t *track) forget(before time.Time) {
	i := 0
	for i < len(t.moments) && t.moments[i].Wall.Before(before) {
		i++
	}
	t.moments = t.moments[i:]
}
