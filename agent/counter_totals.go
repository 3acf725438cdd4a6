// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"maps"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// used is what a task has used since the agent runs, by counter: what ended between two scrapes is not lost to those
// who add up tasks. Its maps do not change once others have them.
type used struct {
	// ended is of the starts that have ended.
	ended map[procstats.ID]float64
	// base is what the present start had used when the agent took it up; nil for one that began under this agent.
	base map[procstats.ID]float64
	// unknown says that the present start was taken up and not read since: how much of it is ours is not known.
	unknown bool
	over    bool // the present start is among the ended ones
}

// begin is called for a new start, takeUp for one of an earlier agent.
func (d *used) begin()  { d.base, d.unknown, d.over = nil, false, false }
func (d *used) takeUp() { d.base, d.unknown, d.over = nil, true, false }

// read is called for each sample.
func (d *used) read(s *procstats.Sample, headlines []procstats.HeadlineValue) {
	if !d.unknown {
		return
	}
	d.unknown, d.base = false, map[procstats.ID]float64{}
	for _, reading := range s.Task {
		if v, ok := reading.Number(); ok && isCounter(reading.ID()) {
			d.base[reading.ID()] = v
		}
	}
	for _, h := range headlines {
		if v, ok := h.Reading.Number(); ok && isCounter(h.ID) {
			d.base[h.ID] = v
		}
	}
}

// end adds the final record of the present start. It may be called again for the same one.
func (d *used) end(final *record.Record) {
	if d.over || d.unknown {
		return
	}
	d.over = true
	all := maps.Clone(d.ended)
	if all == nil {
		all = map[procstats.ID]float64{}
	}
	for _, m := range procstats.Table() {
		if v, ok := counted(final, m); ok {
			all[m.ID] += max(0, v-d.base[m.ID])
		}
	}
	d.ended = all
}

// counted is a counter's value in a final record.
func counted(final *record.Record, m procstats.Measurement) (float64, bool) {
	switch {
	case m.Kind != procstats.Counter || m.Scope == procstats.ProcessScope:
		return 0, false
	case m.ID == procstats.CgroupMemoryEventsOOMKill && final.Diagnosis.OOM.Kills != nil:
		return float64(*final.Diagnosis.OOM.Kills), true
	case m.Scope == procstats.HeadlineScope:
		if value := final.Headline[m.Name].Value; value != nil {
			return *value, true
		}
		return 0, false
	}
	v, ok := final.Measurements[m.Name].(float64)
	return v, ok
}

func isCounter(id procstats.ID) bool {
	m, ok := procstats.Lookup(id)
	return ok && m.Kind == procstats.Counter
}
