// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"strconv"
	"time"
)

// span is how much time a page's charts show.
type span struct {
	Word  string
	Label string
	// On says that it is the one that is shown.
	On   bool
	size time.Duration
}

// customary is the span of tasks that have lived longer than it.
const customary = 15 * time.Minute

// spansOf are the spans that can be chosen for a task: all that is kept of its life, and round ones that are shorter.
func spansOf(t task, until time.Time, kept time.Duration) []span {
	life, label := until.Sub(t.born()), "all"
	if life > kept {
		life, label = kept, roundSpan(kept)
	}
	var list []span
	for _, s := range []span{
		{Word: "5m", Label: "5 min", size: 5 * time.Minute},
		{Word: "15m", Label: "15 min", size: customary},
		{Word: "1h", Label: "1 h", size: time.Hour},
		{Word: "6h", Label: "6 h", size: 6 * time.Hour},
	} {
		if s.size < life {
			list = append(list, s)
		}
	}
	whole, _ := rounded(life)
	return append(list, span{Word: "all", Label: label, size: whole})
}

// born is when the task was first there.
func (t task) born() time.Time {
	born := t.allocation.CreateTime
	if started := t.state.State.StartedAt; born.IsZero() || (!started.IsZero() && started.Before(born)) {
		born = started
	}
	return born
}

// choose marks the span with a word, else the customary one, else the whole life, and returns it.
func choose(list []span, word string) span {
	chosen := len(list) - 1
	for i := range list {
		if list[i].size == customary {
			chosen = i
		}
	}
	for i := range list {
		if list[i].Word == word {
			chosen = i
		}
	}
	list[chosen].On = true
	return list[chosen]
}

// rounded is the least span of time that people like and that holds a life, with how many steps it has.
func rounded(life time.Duration) (size time.Duration, steps int) {
	const day = 24 * time.Hour
	for _, s := range [...]struct {
		size  time.Duration
		steps int
	}{
		{10 * time.Second, 5},
		{30 * time.Second, 3},
		{time.Minute, 4},
		{2 * time.Minute, 4},
		{5 * time.Minute, 5},
		{10 * time.Minute, 5},
		{15 * time.Minute, 5},
		{30 * time.Minute, 6},
		{time.Hour, 6},
		{2 * time.Hour, 4},
		{6 * time.Hour, 6},
		{12 * time.Hour, 6},
		{day, 6},
		{3 * day, 6},
	} {
		if life <= s.size {
			return s.size, s.steps
		}
	}
	return life.Truncate(day) + day, 4
}

// ticks are the labels of the time axis at even distances, the oldest first.
func (s span) ticks(end string) []string {
	_, steps := rounded(s.size)
	labels := make([]string, 0, steps+1)
	for i := steps; i > 0; i-- {
		labels = append(labels, "−"+roundSpan(s.size*time.Duration(i)/time.Duration(steps)))
	}
	return append(labels, end)
}

// roundSpan writes a span in one unit, as all that people like can be written.
func roundSpan(d time.Duration) string {
	switch {
	case d < 2*time.Minute && d%time.Minute != 0:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour && d%time.Hour != 0:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.FormatFloat(d.Hours()/24, 'f', -1, 64) + " d"
}
