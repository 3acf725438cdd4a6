// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// nomadVersion is that of the Nomad whose job files and API the agent follows; job files compare with it.
const nomadVersion = "2.0.5"

// describeNode says what machine this is.
func (a *Agent) describeNode(id string) node.Node {
	c := a.current()
	n := node.Node{
		ID: id, Name: cmp.Or(c.Name, hostName(), "node"), Datacenter: c.Datacenter, Region: c.Region,
		Meta: c.Client.Meta, StartedAt: a.started,
	}
	n.Attributes, n.Resources = node.Describe(c.DataDir)
	n.Attributes["tacho.version"], n.Attributes["nomad.version"] = buildVersion(), nomadVersion
	n.Attributes["unique.network.ip-address"] = node.Address()
	n.Attributes["unique.advertise.address"] = n.Attributes["unique.network.ip-address"]
	return n
}

// NodeStats reads what the machine uses.
func (a *Agent) NodeStats(ctx context.Context) (*node.Stats, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	return a.meter.Read(ctx, a.dataDir(), a.node.Resources), nil
}

// Cost returns what the agent costs.
func (a *Agent) Cost() snapshot.Cost {
	c := snapshot.Cost{
		Goroutines: runtime.NumGoroutine(), Uptime: time.Since(a.started), Samples: a.counts.samples.Load(),
		Backlogged: a.counts.backlogged.Load(), HistoryDropped: a.history.Dropped(), Errors: a.counts.failures(),
	}
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return c
	}
	if times, err := self.Times(); err == nil {
		c.CPUSeconds = times.User + times.System
	}
	if memory, err := self.MemoryInfo(); err == nil {
		c.RSSBytes = int64(memory.RSS)
	}
	return c
}
