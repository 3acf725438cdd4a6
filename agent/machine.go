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

	"github.com/tachograph/tacho/agent/node"
)

// describeNode says what machine this is.
func (a *Agent) describeNode(id string) node.Node {
	c := a.current()
	n := node.Node{
		ID: id, Name: cmp.Or(c.Name, hostName(), "node"), Datacenter: c.Datacenter, Region: c.Region,
		Meta: c.Client.Meta, StartedAt: a.started,
	}
	n.Attributes, n.Resources = node.Describe(c.DataDir)
	n.Attributes["tacho.version"] = buildVersion()
	return n
}

// Node returns what machine this is, with its drivers.
func (a *Agent) Node() node.Node {
	if a.isReady() != nil {
		return node.Node{}
	}
	n := a.node
	n.Drivers = a.drivers.All()
	return n
}

// NodeStats reads what the machine uses.
func (a *Agent) NodeStats(ctx context.Context) (*node.Stats, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	return a.meter.Read(ctx, a.dataDir(), a.node.Resources), nil
}

// Cost is what the agent's own process uses.
type Cost struct {
	CPUSeconds float64
	// RSSBytes is 0 where it could not be read.
	RSSBytes   int64
	Goroutines int
	Uptime     time.Duration
	// Samples and Backlogged count readings taken and readings that came more than an interval late.
	Samples, Backlogged int64
	// HistoryDropped counts the readings that are not in the history because the disk was too slow.
	HistoryDropped int64
	// Errors counts failures by what failed.
	Errors map[string]int64
}

// Cost returns what the agent costs.
func (a *Agent) Cost() Cost {
	c := Cost{
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
