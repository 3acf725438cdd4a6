// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/procstats"
)

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
