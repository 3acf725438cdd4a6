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
	if selection.HasSource(procstats.SourceSkb) {
		if err := r.tryNetwork(); err != nil {
			return network.Absent(selection, err.Error())
		}
	}
	return network.Open(kernel.HostFS(), selection, r.task.Cgroup.V2, true)
}

// Network returns the packets of a task when it has ended, before its Done is closed, and what the source can do here; nil if
// it is not read here.
func (l *Loop) Network(id string) (*procstats.Sample, procstats.SourceDescription) {
	r := l.use(id)
	if r == nil {
		return nil, procstats.SourceDescription{}
	}
	defer l.release(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &procstats.Sample{}
	r.network.Collect(s)
	return s, r.network.Describe()
}
