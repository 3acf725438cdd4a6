// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/tachograph/tacho/agent/node"
	"github.com/tachograph/tacho/agent/snapshot"
	"github.com/tachograph/tacho/agent/streams"
	"github.com/tachograph/tacho/exposition"
)

// Agent is what the metrics are of; *agent.Agent is one.
type Agent interface {
	Snapshot(only ...string) *snapshot.Agent
	NodeStats(ctx context.Context) (*node.Stats, error)
	Cost() snapshot.Cost
}

// Collector gathers metric families from an agent. It keeps nothing but the totals of tasks that have ended, where
// series are kept by job or by task. Its methods may be called concurrently.
type Collector struct {
	agent   Agent
	streams *streams.Room
	columns []column
	now     func() time.Time
	began   time.Time

	mu     sync.Mutex
	totals totals
	scrape time.Duration
}

// New returns a collector over an agent and the streams of its servers.
func New(a Agent, room *streams.Room) *Collector {
	return &Collector{agent: a, streams: room, columns: append(columns(), ownColumns()...), now: time.Now, began: time.Now()}
}

// Gather reads the present state of everything that the configuration lets through, in a fixed order. Families
// without a sample are among them.
func (c *Collector) Gather(ctx context.Context) []exposition.Family {
	began := time.Now()
	now := c.agent.Snapshot()
	telemetry := now.Config.Telemetry
	common := commonLabels(now)
	rows := c.readTasks(now, common)

	families := c.taskFamilies(rows, telemetry.AllocationDetail)
	families = append(families, c.agentFamilies(now, common)...)
	if telemetry.PublishNodeMetrics {
		families = append(families, c.nodeFamilies(ctx, now, common)...)
	}
	if telemetry.NomadNames {
		families = append(families, nomadFamilies(rows, telemetry.AllocationDetail, now.Node.Resources.CoreMHz)...)
	}
	families = append(families, c.scrapeFamilies(families, common, began)...)
	return newFilter(telemetry).apply(families)
}

// commonLabels is the host's name, unless it is not wanted.
func commonLabels(now *snapshot.Agent) *exposition.Labels {
	t := now.Config.Telemetry
	if t.DisableHostname {
		return exposition.NewLabels()
	}
	name := now.Node.Attributes["unique.hostname"]
	if t.UseNodeName || name == "" {
		name = now.Node.Name
	}
	return exposition.NewLabels(exposition.Label{Name: "host", Value: name})
}

// scrapeFamilies say what this page costs. The duration is that of the page before: this one is not finished.
func (c *Collector) scrapeFamilies(families []exposition.Family, common *exposition.Labels, began time.Time) []exposition.Family {
	series := 0
	for i := range families {
		series += len(families[i].Samples)
	}
	c.mu.Lock()
	before := c.scrape
	c.scrape = time.Since(began)
	c.mu.Unlock()
	list := []exposition.Family{family(agentSeries), family(agentScrape)}
	list[0].Add(common, float64(series))
	if before > 0 {
		list[1].Add(common, before.Seconds())
	}
	return list
}
