// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// countPackets begins to count the packets of the task, if they are selected and can be counted on this machine. The executor's
// sample says why they are not selected, if that is because counting them is off.
func (r *reading) countPackets(selection procstats.Selection, executors *procstats.Sample) *network.Source {
	if reading, found := executors.Task.Get(procstats.SkbReceived); found && !selection.HasSource(procstats.SourceSkb) {
		return network.Absent(procstats.SourceSelection(procstats.SourceSkb), reading.Reason())
	}
	if counted := r.early.network(selection); counted != nil {
		r.early = nil // the source closes it
		return counted
	}
	if selection.HasSource(procstats.SourceSkb) {
		if err := r.tryNetwork(); err != nil {
			return network.Absent(selection, err.Error())
		}
	}
	return network.Open(kernel.HostFS(), selection, r.task.Cgroup.V2, true)
}

// Network returns the packets of a task when it has ended, before its Done is closed, and what the source can do here; nil if
// it is not read here.
func (l *Loop) Network(id string) (s *procstats.Sample, d procstats.SourceDescription) {
	describe := func(source *network.Source) {
		if source != nil {
			s, d = &procstats.Sample{}, source.Describe()
			source.Collect(s)
		}
	}
	l.counted(id, func(r *reading) {
		r.mu.Lock()
		defer r.mu.Unlock()
		describe(r.network)
	}, func(e *early) {
		describe(e.network(procstats.SourceSelection(procstats.SourceSkb)))
	})
	return s, d
}
