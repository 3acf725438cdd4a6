// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package metrics turns the state of an agent into metric families.
//
// The names of a task's metrics follow from the table of measurements by one rule, see exposition.FamilyOf;
// docs/metrics.md lists them all. What was not measured has no sample.
package metrics

import (
	"context"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// Agent is the source of the metrics; *agent.Agent is one.
type Agent interface {
	Snapshot(only ...string) *snapshot.Agent
	NodeStats(ctx context.Context) (*node.Stats, error)
	Cost() snapshot.Cost
}

// Collector gathers metric families from an agent. It stores the totals of tasks that have ended, if series are by
// job or by task. Its methods may be called concurrently.
type Collector struct {
	agent   Agent
	streams *streams.Room
	columns []column
	byID    []int     // the index of a measurement's column, plus one
	blank   []float64 // a row in which nothing was measured
	now     func() time.Time
	began   time.Time

	// spare is the memory of the page before. A sync.Pool would have one for each CPU.
	spare atomic.Pointer[scratch]

	mu     sync.Mutex
	totals totals
	scrape time.Duration
}

// scratch is the memory for one page: many tasks need megabytes.
type scratch struct {
	rows    []row
	values  []float64
	samples []exposition.Sample
	// labels are those of the tasks on the page before, if the labelling has the same key.
	labels    map[*allocation.Task]taskLabels
	labelsKey string
	zipper    zipper
}

// taskLabels are the labels of a task's numbers, and of tacho_task_info.
type taskLabels struct {
	labels, info *exposition.Labels
}

// clear removes the references in the memory.
func (s *scratch) clear() {
	clear(s.rows)
	clear(s.samples)
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
	c.blank = slices.Repeat([]float64{math.NaN()}, len(c.columns))
	return c
}

// columnOf returns the index of a measurement's column; -1 if it has none.
func (c *Collector) columnOf(id procstats.ID) int {
	if int(id) >= len(c.byID) {
		return -1
	}
	return c.byID[id] - 1
}

// Gather reads the present state of everything that the configuration selects, in a fixed order. Families without a
// sample are among them.
func (c *Collector) Gather(ctx context.Context) []exposition.Family { return c.gather(ctx, &scratch{}) }

// with calls a function with the families, in memory that is reused afterwards.
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
	labels := newLabelling(now)
	rows := c.readTasks(now, labels, into)
	all := c.taskFamilies(rows, labels.detail, into)

	var others []exposition.Family
	f := families{&others, labels.common}
	c.addAgent(f, now)
	if telemetry.PublishNodeMetrics {
		c.addNode(ctx, f, now)
	}
	if telemetry.NomadNames {
		f.addNomadAgent(now)
		if labels.detail == DetailAlloc {
			own := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.alloc.JobType == allocation.Watch })
			all = append(all, nomadFamilies(own, now.Node.Resources.CoreMHz)...)
		}
	}
	c.addScrape(f, all, began)
	return filter(telemetry, append(all, others...))
}

// addScrape adds the cost of this page. The duration is that of the page before: this one is not finished.
func (c *Collector) addScrape(f families, tasks []exposition.Family, began time.Time) {
	series := 0
	for _, family := range slices.Concat(tasks, *f.list) {
		series += len(family.Samples)
	}
	c.mu.Lock()
	before := c.scrape
	c.scrape = time.Since(began)
	c.mu.Unlock()
	f.gauge("tacho_agent_series", "Samples in this response, without those of tacho_agent_series and "+
		"tacho_agent_scrape_seconds, and before prefix_filter.", float64(series))
	if before > 0 {
		f.gauge("tacho_agent_scrape_seconds", "How long it took to gather the previous response.", before.Seconds())
	}
}

// ServeHTTP answers with the Prometheus text format, or with OpenMetrics if the client asks for it.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := exposition.Text
	if wantsOpenMetrics(r.Header.Get("Accept")) {
		format = exposition.OpenMetrics
	}
	w.Header().Set("Content-Type", string(format))
	w.Header().Set("Vary", "Accept-Encoding")
	c.with(r.Context(), func(families []exposition.Family, memory *scratch) {
		if quality(r.Header.Get("Accept-Encoding"), "gzip") == 0 {
			_ = format.Write(w, families) // a client that went away is not an error of ours
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_ = memory.zipper.write(w, families, format) // as above
	})
}

// quality returns how much a client wants something, 0 to 1, of what a header lists: RFC 9110, section 12.4.2.
func quality(accept, wanted string) (most float64) {
	for part := range strings.SplitSeq(accept, ",") {
		name, parameters, err := mime.ParseMediaType(part)
		if err != nil || name != wanted {
			continue
		}
		q, err := strconv.ParseFloat(parameters["q"], 64)
		if err != nil {
			q = 1
		}
		most = max(most, q)
	}
	return most
}

// wantsOpenMetrics reports whether a client would have OpenMetrics rather than text. One that takes anything gets text.
func wantsOpenMetrics(accept string) bool {
	open := quality(accept, "application/openmetrics-text")
	return open > 0 && open >= quality(accept, "text/plain")
}

// ServeJSON answers with the keys of Nomad's /v1/metrics.
func (c *Collector) ServeJSON(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	c.with(r.Context(), func(families []exposition.Family, _ *scratch) {
		_ = exposition.WriteJSON(w, families, c.now()) // a client that went away is not an error of ours
	})
}
