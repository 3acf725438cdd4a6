// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/network"
)

// countPackets counts the packets of a task that is about to be started, if this executor samples it: for a driver's task its caller
// counts them, so that not every executor loads programs.
func (e *Executor) countPackets(request *proto.LaunchRequest, selection procstats.Selection, group *cgroup.Group) *network.Source {
	if request.GetRecord().GetIntervalNs() <= 0 {
		return network.Absent(selection, "not counted (publishing off)")
	}
	dir := ""
	if group.Encloses() {
		dir = group.V2
	}
	source := network.Open(e.host, selection, dir, false)
	if !source.Describe().Available {
		return source
	}
	// After the task's: the first program of a kind in any cgroup, and the removal of the last, patch the kernel's code, which stops all
	// CPUs for a moment.
	if err := network.Try(e.host); err != nil {
		if closed := source.Close(); closed != nil {
			e.log.Error("stop counting packets", "error", closed)
		}
		return network.Absent(selection, err.Error())
	}
	return source
}
