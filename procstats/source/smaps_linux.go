// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// smapsSource is the source of what smaps_rollup has for people; Members reads it.
type smapsSource struct{ processSource }

// OpenSmaps returns the source of the smaps_ measurements and of process_pss_bytes. m is shared with the other
// sources that read processes; nil makes one for this source alone.
func OpenSmaps(t Target, sel procstats.Selection, m *Members, limits SmapsLimits) Source {
	q := &smapsSource{newProcessSource(procstats.SourceSmaps, t, sel, m, kernel.FileStatm, kernel.FileTask, kernel.FileChildren)}
	q.members.smaps.limits = limits.withDefaults()
	return q
}

// Describe implements Source.
func (q *smapsSource) Describe() procstats.SourceDescription {
	return q.members.describe(procstats.SourceSmaps, "smaps_rollup", "Linux 4.14 and CONFIG_PROC_PAGE_MONITOR")
}

// Collect implements Source.
func (q *smapsSource) Collect(s *procstats.Sample) {
	if !q.refresh(s) {
		return
	}
	q.members.refreshSmaps()
	s.SetRead(procstats.SourceSmaps, q.members.smaps.last.stamp)
	q.putTask(s)
	q.putRows(s, func(p *process) [2]int64 { return [2]int64{p.smaps.PSS, 0} }, q.rowReading)
}

func (q *smapsSource) putTask(s *procstats.Sample) {
	last := &q.members.smaps.last
	for _, id := range q.task {
		switch {
		case id == procstats.SmapsSkipped:
			s.SetNumber(id, float64(last.skipped()))
		case last.reason != "":
			s.SetAbsent(id, last.reason)
		case id == procstats.SmapsPSS:
			s.SetNumber(id, float64(last.pss))
		case id == procstats.SmapsSwapPSS:
			s.SetNumber(id, float64(last.swapPSS))
		}
	}
}

func (q *smapsSource) rowReading(id procstats.ID, p *process) procstats.Reading {
	switch {
	case !p.identified:
		return procstats.AbsentReading(id, p.fault)
	case p.smaps.at != q.members.smaps.last.stamp.Mono:
		return procstats.AbsentReading(id, smapsNewer)
	case p.smaps.fault != "":
		return procstats.AbsentReading(id, p.smaps.fault)
	}
	return procstats.NumberReading(id, float64(p.smaps.PSS))
}
