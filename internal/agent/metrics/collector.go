// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"compress/gzip"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/streams"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/procstats"
)

// Agent is what the metrics are of; *agent.Agent is one.
type Agent interface {
	Snapshot(only ...string) *snapshot.Agent
	NodeStats(ctx context.Context) (*node.Stats, error)
	Cost() snapshot.Cost
}

// Collector gathers metric families from an agent. It keeps nothing but the totals of tasks that have ended, if
// series are kept by job or by task. Its methods may be called concurrently.
type Collector struct {
	agent   Agent
	streams *streams.Room
	columns []column
	byID    []int // the index of a measurement's column, plus one
	now     func() time.Time
	began   time.Time

	// spare is the memory of a page that has been sent. A sync.Pool would have one for each CPU.
	spare atomic.Pointer[scratch]

	mu     sync.Mutex
	totals totals
	scrape time.Duration
}

// scratch is memory for what is gathered for one response: many tasks have megabytes of it.
type scratch struct {
	rows    []row
	values  []float64
	samples []exposition.Sample
	// labels are those of tasks that have not changed since, if their key is the same.
	labels    map[*allocation.Task]taskLabels
	labelsKey string
	zipper    *gzip.Writer // of most of a megabyte; nil before the first page that is compressed
}

// compress returns what compresses a page.
func (s *scratch) compress(into io.Writer) *gzip.Writer {
	if s.zipper == nil {
		s.zipper, _ = gzip.NewWriterLevel(into, gzip.BestSpeed) // the level is valid
	}
	s.zipper.Reset(into)
	return s.zipper
}

// taskLabels are the labels of a task's numbers, and of tacho_task_info.
type taskLabels struct {
	labels, info *exposition.Labels
}

// clear forgets what the memory refers to.
func (s *scratch) clear() {
	clear(s.rows)
	clear(s.samples)
	if s.zipper != nil {
		s.zipper.Reset(nil)
	}
	if len(s.labels) > 2*len(s.rows) { // tasks have changed, or ended
		clear(s.labels)
	}
	s.rows, s.samples = s.rows[:0], s.samples[:0]
}

// New returns a collector over an agent and the streams of its servers.
func New(a Agent, room *streams.Room) *Collector {
	c := &Collector{agent: a, streams: room, columns: columns(), now: time.Now, began: time.Now()}
	for i, column := range c.columns {
		c.byID = append(c.byID, make([]int, int(column.id)+1-len(c.byID))...)
		c.byID[column.id] = i + 1
	}
	c.columns = append(c.columns, ownColumns()...)
	return c
}

// columnOf returns the index of a measurement's column; -1 if it has none.
func (c *Collector) columnOf(id procstats.ID) int {
	if int(id) >= len(c.byID) {
		return -1
	}
	return c.byID[id] - 1
}

// Gather reads the present state of everything that the configuration lets through, in a fixed order. Families
// without a sample are among them.
func (c *Collector) Gather(ctx context.Context) []exposition.Family { return c.gather(ctx, &scratch{}) }

// with calls a function with what Gather returns, in memory that is used again afterwards.
func (c *Collector) with(ctx context.Context, use func([]exposition.Family, *scratch)) {
	s := c.spare.Swap(nil)
	if s == nil {
		s = &scratch{}
	}
	use(c.gather(ctx, s), s)
	s.clear()
	c.spare.Store(s)
}

func (c *Collector) gather(ctx context.Context, into *scratch) []exposition.Family {
	began := time.Now()
	now := c.agent.Snapshot()
	telemetry := now.Config.Telemetry
	common := commonLabels(now)
	rows := c.readTasks(now, common, into)

	all := c.taskFamilies(rows, telemetry.AllocationDetail, into)
	all = append(all, c.agentFamilies(now, common)...)
	if telemetry.PublishNodeMetrics {
		all = append(all, c.nodeFamilies(ctx, now, common)...)
	}
	if telemetry.NomadNames {
		all = append(all, nomadAgent(now, common)...)
		all = append(all, nomadFamilies(rows, telemetry.AllocationDetail, now.Node.Resources.CoreMHz)...)
	}
	all = append(all, c.scrapeFamilies(all, common, began)...)
	return newFilter(telemetry).apply(all)
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
func (c *Collector) scrapeFamilies(all []exposition.Family, common *exposition.Labels, began time.Time) []exposition.Family {
	series := 0
	for i := range all {
		series += len(all[i].Samples)
	}
	c.mu.Lock()
	before := c.scrape
	c.scrape = time.Since(began)
	c.mu.Unlock()
	var f families
	f.gauge("tacho_agent_series",
		"Samples in this response, without those of tacho_agent_series and tacho_agent_scrape_seconds, and before prefix_filter.", common, float64(series))
	if before > 0 {
		f.gauge("tacho_agent_scrape_seconds", "How long it took to gather the previous response.", common, before.Seconds())
	}
	return f
}
