// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
)

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
