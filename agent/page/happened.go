// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/agent/history"
	"github.com/tachograph/tacho/chart"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/procstats"
)

// happening is something that the charts mark.
type happening struct {
	When, What, Class string
	at                time.Time
}

// happened finds gaps, restarts and OOM kills, marks them in the charts, and lists them, the newest first.
func (f *frame) happened(t task) []happening {
	var all []happening
	for i := range f.moments {
		switch m := &f.moments[i]; {
		case m.gap != history.NoGap:
			if h, ok := f.gapAt(i); ok {
				all = append(all, h)
			}
		case i > 0:
			if kills, _ := m.counter(oomKills).GrowthSince(f.moments[i-1].counter(oomKills)); kills > 0 {
				all = append(all, happening{at: m.Wall, What: record.KillsText(int64(kills)), Class: "oom"})
			}
		}
	}
	for _, e := range t.state.Events {
		h := happening{at: e.Time}
		switch {
		case e.Type == hook.EventStarted:
			h.What, h.Class = "started", "start"
		case e.Type == hook.EventTerminated && strings.Contains(strings.ToLower(e.Message), "oom"):
			h.What, h.Class = string(record.OOMKilled), "oom"
		case e.Type == hook.EventTerminated:
			h.What, h.Class = "ended", "end"
		default:
			continue
		}
		all = append(all, h)
	}
	all = slices.DeleteFunc(all, func(h happening) bool {
		return h.Class != "gap" && (h.at.Before(f.axis.Since) || h.at.After(f.axis.Until.Add(time.Second)))
	})
	slices.SortStableFunc(all, func(a, b happening) int { return b.at.Compare(a.at) })
	for i := range all {
		h := &all[i]
		h.When = formatClock(h.at)
		if h.Class != "gap" {
			f.axis.Marks = append(f.axis.Marks, chart.Mark{At: h.at, Class: h.Class, Title: h.What + " at " + h.When})
		}
	}
	return all
}

// gapAt is the gap that a moment stands for, from the reading before it to the one behind it.
func (f *frame) gapAt(i int) (h happening, ok bool) {
	from, to := f.axis.Since, f.axis.Until
	if i > 0 {
		from = f.moments[i-1].Wall
	}
	if i+1 < len(f.moments) {
		to = f.moments[i+1].Wall
	}
	if !to.After(f.axis.Since) || from.After(f.axis.Until) {
		return h, false
	}
	what := "no readings for " + procstats.Seconds.Text(to.Sub(from).Seconds()) + ": " + f.moments[i].gap.String()
	f.axis.Gaps = append(f.axis.Gaps, chart.Gap{From: from, To: to, Title: what})
	return happening{at: from, What: what, Class: "gap"}, true
}
