// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/network"
)

// countPackets counts the packets of a task that is about to be started, if this executor samples it: for a driver's task its caller
// counts them, so that not every executor loads programs.
func (e *Executor) countPackets(request *proto.LaunchRequest, selection procstats.Selection, group *cgroup.Group) *network.Source {
	if request.GetNetworkOff() {
		return network.Off()
	}
	enclosed := group.Encloses() && group.V2 != ""
	if request.GetRecord().GetIntervalNs() <= 0 && enclosed && selection.HasSource(procstats.SourceSkb) {
		return network.Absent(selection, record.NotSampled) // unless the caller says otherwise
	}
	defer func() { // also of a task whose packets are not counted: the trial counts those of everybody around this process
		if err := e.programs.packets.close(); err != nil {
			e.log.Error("end the trial of counting packets", "error", err)
		}
	}()
	if !enclosed || !selection.HasSource(procstats.SourceSkb) {
		return network.Open(e.host, selection, "", false)
	}
	if err := e.programs.tryPackets(); err != nil {
		return network.Absent(selection, err.Error())
	}
	return network.Open(e.host, selection, group.V2, false)
}
