// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// happening is something that the charts mark.
type happening struct {
	When, What, Class string
	at                time.Time
}

// mostHappened is how many lines the list has; the charts mark all.
const mostHappened = 12

// happened finds gaps, starts, ends and OOM kills, marks them in the charts, and returns the newest, the newest
// first, with the number of those that are left out. The history has all of them for as long as it has points;
// the few events that are kept have the exact times and what ended otherwise.
func (f *frame) happened(t task) (list []happening, more int) {
	all := f.past()
	for _, h := range eventsIn(t) {
		const same = 3 * time.Second
		known := slices.IndexFunc(all, func(o happening) bool { return o.Class == h.Class && o.at.Sub(h.at).Abs() < same })
		if known < 0 {
			all = append(all, h)
		} else if h.Class != "oom" {
			all[known] = h
		}
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
	if len(all) > mostHappened {
		return all[:mostHappened], len(all) - mostHappened
	}
	return all, 0
}

// past is what the history says.
func (f *frame) past() (all []happening) {
	for i := range f.moments {
		m := &f.moments[i]
		if m.Gap != series.NoGap {
			h, shown := f.gapAt(i)
			switch {
			case m.Gap == series.GapOOM:
				if n := len(all); n > 0 && all[n-1].Class == "oom" && i > 0 && all[n-1].at.Equal(f.moments[i-1].Wall) {
					all = all[:n-1] // the last reading saw it already
				}
				all = append(all, happening{at: m.Wall, What: string(record.OOMKilled), Class: "oom"})
			case shown && m.Gap != series.GapTask: // the end and the next start say it
				all = append(all, h)
			}
			continue
		}
		if i == 0 {
			continue
		}
		before := &f.moments[i-1]
		if kills := m.Kills(before); kills > 0 {
			all = append(all, happening{at: m.Wall, What: record.KillsText(kills), Class: "oom"})
		}
		if before.Run != m.Run {
			all = append(all, happening{at: m.Wall, What: "started", Class: "start"})
		}
	}
	return all
}

// eventsIn are the events that the charts mark.
func eventsIn(t task) (all []happening) {
	events, _ := t.state.Details()
	for _, e := range events {
		switch {
		case e.Type == hook.EventStarted:
			all = append(all, happening{at: e.Time, What: "started", Class: "start"})
		case e.Type == hook.EventTerminated && e.Details[allocation.DetailOOMKilled] == "true":
			all = append(all, happening{at: e.Time, What: string(record.OOMKilled), Class: "oom"})
		case e.Type == hook.EventTerminated:
			all = append(all, happening{at: e.Time, What: "ended", Class: "end"})
		}
	}
	if version := t.allocation.JobVersion; version > 0 {
		all = append(all, happening{
			at: t.allocation.CreateTime, What: "version " + strconv.FormatUint(version, 10),
			Class: "version",
		})
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
	what := "no readings for " + procstats.Seconds.Text(to.Sub(from).Seconds()) + ": " + f.moments[i].Gap.String()
	f.axis.Gaps = append(f.axis.Gaps, chart.Gap{From: from, To: to, Title: what})
	return happening{at: from, What: what, Class: "gap"}, true
}
