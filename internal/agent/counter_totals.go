// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/procstats"
)

// addStart returns the totals with a start that has ended: of each counter the most that was read or that its final record
// says, as that may have been published. A start that is among them is not added again: after a kill of the agent the same
// end is reported twice.
func addStart(t allocation.Totals, run int, final *record.Record, read allocation.Counters) allocation.Totals {
	if run <= t.Run {
		return t
	}
	used := slices.Clone(read)
	for _, m := range procstats.Table() {
		v, ok := final.Measurements[m.Name].(float64)
		if h := final.Headline[m.Name].Value; h != nil {
			v, ok = *h, true
		}
		if ok {
			raiseCounter(&used, procstats.NumberReading(m.ID, v))
		}
	}
	kills, counted := used.Number(procstats.CgroupMemoryEventsOOMKill)
	if recorded := final.Diagnosis.OOM.Kills; recorded != nil {
		kills, counted = max(kills, float64(*recorded)), true
	}
	sum := allocation.Totals{Run: run, Counters: make(map[procstats.ID]float64, len(used)), OOMKills: t.OOMKills}
	for _, c := range used {
		sum.Counters[c.ID] = c.Value
	}
	for id, v := range t.Counters {
		sum.Counters[id] += v
	}
	if counted {
		total := int64(kills)
		if t.OOMKills != nil {
			total += *t.OOMKills
		}
		sum.OOMKills = &total
	}
	return sum
}

// raiseCounter puts the number of a counter of the task, unless there is a larger one.
func raiseCounter(of *allocation.Counters, r procstats.Reading) {
	m, known := procstats.Lookup(r.ID())
	if v, ok := r.Number(); ok && known && m.Kind == procstats.Counter && m.Scope != procstats.ProcessScope {
		of.Raise(m.ID, v)
	}
}

// raiseCounters puts the counters of a sample and its headlines.
func raiseCounters(of *allocation.Counters, s *procstats.Sample, headlines []procstats.HeadlineValue) {
	for _, r := range s.Task {
		raiseCounter(of, r)
	}
	for _, h := range headlines {
		raiseCounter(of, h.Reading)
	}
	if cap(*of) > len(*of)*9/8 { // there will hardly be more
		*of = slices.Clone(*of)
	}
}

// measurements returns the counters of the present or last start by name, as a record has them.
func (u *usage) measurements() map[string]any {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make(map[string]any, len(u.counters))
	for _, c := range u.counters {
		all[c.ID.String()] = c.Value
	}
	return all
}
