// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// rusage reports the sums of the executor's wait4(2) calls. Nothing is read: the kernel returned it at each reap.
type rusage struct {
	reaped func() Reaped
	sel    procstats.Selection
}

// OpenRusage returns the source of the resource usage of reaped children.
func OpenRusage(t Target, sel procstats.Selection) Source { return &rusage{reaped: t.Reaped, sel: sel} }

// Describe implements Source.
func (r *rusage) Describe() procstats.SourceDescription {
	if r.reaped == nil {
		return procstats.SourceDescription{ID: procstats.SourceRusage, Reason: "no executor reaps the task's processes here"}
	}
	return procstats.SourceDescription{ID: procstats.SourceRusage, Available: true}
}

// Collect implements Source.
func (r *rusage) Collect(s *procstats.Sample) {
	if r.reaped == nil {
		for id := procstats.RusageCPU; id <= procstats.RusageOublock; id++ {
			if r.sel.Has(id) {
				s.SetAbsent(id, r.Describe().Reason)
			}
		}
		return
	}
	s.Sources[procstats.SourceRusage] = kernel.Now()
	sum := r.reaped()
	for id := procstats.RusageCPU; id <= procstats.RusageOublock; id++ {
		if !r.sel.Has(id) {
			continue
		}
		if sum.Processes == 0 {
			s.SetAbsent(id, "no process of the task was reaped yet")
			continue
		}
		s.SetNumber(id, rusageValue(&sum, id))
	}
}

func rusageValue(sum *Reaped, id procstats.ID) float64 {
	switch id {
	case procstats.RusageCPU:
		return sum.CPU.Seconds()
	case procstats.RusageMaxRSS:
		return float64(sum.MaxRSS)
	case procstats.RusageMinflt:
		return float64(sum.Minflt)
	case procstats.RusageMajflt:
		return float64(sum.Majflt)
	case procstats.RusageNvcsw:
		return float64(sum.Nvcsw)
	case procstats.RusageNivcsw:
		return float64(sum.Nivcsw)
	case procstats.RusageInblock:
		return float64(sum.Inblock)
	}
	return float64(sum.Oublock)
}

// Close implements Source.
func (r *rusage) Close() error { return nil }
