// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"time"

	"github.com/tachograph/tacho/chart"
	"github.com/tachograph/tacho/procstats"
)

// span is how much time a page's charts show.
type span struct {
	Word  string
	Label string
	// On says that it is the one that is shown.
	On   bool
	size time.Duration
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
	for _, s := range []span{
		{Word: "5m", Label: "5m", size: 5 * time.Minute},
		{Word: "15m", Label: "15m", size: customary},
		{Word: "1h", Label: "1h", size: time.Hour},
		{Word: "6h", Label: "6h", size: 6 * time.Hour},
	} {
		if s.size < life {
			list = append(list, s)
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
