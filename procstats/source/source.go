// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package source makes samples of kernel files.
//
// A [Source] reads one group of files for one task, the [Target]; a [Collector] all sources that a selection needs,
// into a procstats.Sample; a [Cache] shares samples among readers. A file that does not exist here, or cannot be read,
// makes its measurements absent with the reason; it never fails the sample.
//
// The package starts no goroutine and reads only below the roots that a Target gives it.
package source

import (
	"github.com/tachograph/tacho/procstats"
)

// Source reads one group of kernel files for one task. It is used by one goroutine at a time and starts none.
type Source interface {
	// Describe says which source it is and whether it works here.
	Describe() procstats.SourceDescription
	// Collect puts one reading of each selected measurement of the source into s, a value or a reason, and
	// stamps s.Sources. A read that fails makes its measurements absent; it never fails the sample.
	Collect(s *procstats.Sample)
	// Close closes kept-open files.
	Close() error
}

// defaultMaxRows is what a target without a bound of its own allows.
const defaultMaxRows = 1000

// reasonEnded is why a process of a sample lacks what was to be read of it last.
const reasonEnded = "the process ended while the sample was taken"

// reasonUnseen is why sums are absent where cgroup.procs has zeros in place of PIDs.
const reasonUnseen = "cgroup.procs lists processes of another PID namespace"

// selected lists the selected measurements of one source and scope, ordered by ID.
func selected(sel procstats.Selection, source procstats.SourceID, scope procstats.Scope) []procstats.ID {
	return procstats.SelectWhere(func(m procstats.Measurement) bool {
		return m.Source == source && m.Scope == scope && sel.Has(m.ID)
	}).IDs()
}

// putAbsent makes measurements of the task absent for one reason.
func putAbsent(s *procstats.Sample, ids []procstats.ID, reason string) {
	for _, id := range ids {
		s.SetAbsent(id, reason)
	}
}

// absentSource is a source that this system does not have.
type absentSource struct {
	id     procstats.SourceID
	task   []procstats.ID
	reason string
}

func newAbsentSource(id procstats.SourceID, sel procstats.Selection, reason string) *absentSource {
	return &absentSource{id: id, task: selected(sel, id, procstats.TaskScope), reason: reason}
}

// Describe implements Source.
func (a *absentSource) Describe() procstats.SourceDescription {
	return procstats.SourceDescription{ID: a.id, Reason: a.reason}
}

// Collect implements Source.
func (a *absentSource) Collect(s *procstats.Sample) { putAbsent(s, a.task, a.reason) }

// Close implements Source.
func (*absentSource) Close() error { return nil }
