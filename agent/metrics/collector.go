// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/tachograph/tacho/agent"
	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/config"
	"github.com/tachograph/tacho/agent/node"
	"github.com/tachograph/tacho/exposition"
)

// Tasks knows what runs and what it uses.
type Tasks interface {
	Allocations() []*allocation.Allocation
	Stats(allocID string) (map[string]allocation.Usage, error)
}

// Host knows the agent itself and its machine.
type Host interface {
	Self() config.Config
	Cost() agent.Cost
	Publishing() (on bool, reason string)
	Node() node.Node
	NodeStats(ctx context.Context) (*node.Stats, error)
}

// Collector gathers metric families from an agent. It keeps nothing but the totals of tasks that have ended, where
// series are kept by job or by task. Its methods may be called concurrently.
type Collector struct {
	tasks   Tasks
	host    Host
	columns []column
	now     func() time.Time
	began   time.Time

	mu     sync.Mutex
	totals totals
	scrape time.Duration
}

// New returns a collector over an agent, which is usually both arguments.
func New(tasks Tasks, host Host) *Collector {
	return &Collector{tasks: tasks, host: host, columns: append(columns(), ownColumns()...), now: time.Now, began: time.Now()}
}

// Gather reads the present state of everything that the configuration lets through, in a fixed order. Families
// without a sample are among them.
func (c *Collector) Gather(ctx context.Context) []exposition.Family {
	began := time.Now()
	telemetry := c.host.Self().Telemetry
	allocations := c.tasks.Allocations()
	common := c.commonLabels(telemetry)
	rows := c.readTasks(allocations, common, telemetry)

	families := c.taskFamilies(rows, telemetry.AllocationDetail)
	families = append(families, c.agentFamilies(allocations, common)...)
	if telemetry.PublishNodeMetrics {
		families = append(families, c.nodeFamilies(ctx, common, telemetry.NomadNames)...)
	}
	if telemetry.NomadNames {
		families = append(families, c.nomadFamilies(rows, telemetry.AllocationDetail)...)
	}
	families = append(families, c.scrapeFamilies(families, common, began)...)
	return newFilter(telemetry).apply(families)
}

// commonLabels is the host's name, unless it is not wanted.
func (c *Collector) commonLabels(t config.Telemetry) *exposition.Labels {
	if t.DisableHostname {
		return exposition.NewLabels()
	}
	n := c.host.Node()
	name := n.Attributes["unique.hostname"]
	if t.UseNodeName || name == "" {
		name = n.Name
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
