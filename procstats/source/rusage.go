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
	ids    []procstats.ID
}

// openRusage returns the source of the resource usage of reaped children.
func openRusage(t Target, sel procstats.Selection) Source {
	return &rusage{reaped: t.Reaped, ids: selected(sel, procstats.SourceRusage, procstats.TaskScope)}
}

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
		putAbsent(s, r.ids, r.Describe().Reason)
		return
	}
	now, sum := kernel.Now(), r.reaped()
	if !sum.At.Zero() {
		now = sum.At
	}
	s.SetRead(procstats.SourceRusage, now)
	if sum.Processes == 0 {
		putAbsent(s, r.ids, "no process of the task was reaped yet")
		return
	}
	values := [...]float64{ // in the order of the table
		sum.CPU.Seconds(), float64(sum.MaxRSS), float64(sum.Minflt), float64(sum.Majflt), float64(sum.Nvcsw), float64(sum.Nivcsw),
		float64(sum.Inblock), float64(sum.Oublock),
	}
	for _, id := range r.ids {
		switch {
		case id == procstats.RusageOutside && !sum.Watched:
			s.SetAbsent(id, "no cgroup of version 2 to hold the ended processes against")
		case id == procstats.RusageOutside:
			s.SetNumber(id, float64(sum.Outside))
		case id != procstats.RusagePeakRSS:
			s.SetNumber(id, values[id-procstats.RusageCPU])
		case sum.PeakRSS == 0:
			s.SetAbsent(id, "no reaped process had more resident memory than the executor, whose value a child inherits")
		default:
			s.SetNumber(id, float64(sum.PeakRSS))
		}
	}
}

// Close implements Source.
func (r *rusage) Close() error { return nil }
