// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"math"
	"slices"

	"github.com/tachograph/tacho/internal/exposition"
)

// totals are the counters of tasks that share their labels. A sum of counters falls when a task is removed; what is
// added up here is what each has grown under this agent.
type totals struct {
	tasks  map[taskKey]*lastRead
	groups map[string][]float64
}

type taskKey struct{ alloc, task string }

// lastRead is a task at the scrape before.
type lastRead struct {
	values  []float64
	visited bool
}

// combineRows returns one row for all that share their labels. rows are ordered by labels.
func (c *Collector) combineRows(rows []row) []row {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals.tasks == nil {
		c.totals = totals{tasks: map[taskKey]*lastRead{}, groups: map[string][]float64{}}
	}
	for _, last := range c.totals.tasks {
		last.visited = false
	}
	var combined []row
	for i := range rows {
		r := &rows[i]
		if len(combined) == 0 || combined[len(combined)-1].labels.Text() != r.labels.Text() {
			combined = append(combined, row{taskLabels: r.taskLabels, values: absent(len(c.columns))})
		}
		c.addGauges(combined[len(combined)-1].values, r.values)
		c.grow(r)
	}
	for key, last := range c.totals.tasks {
		if !last.visited {
			delete(c.totals.tasks, key)
		}
	}
	groups := make(map[string][]float64, len(combined))
	for _, r := range combined {
		sums := c.totals.groups[r.labels.Text()]
		groups[r.labels.Text()] = sums
		for i := range c.columns {
			if c.columns[i].kind == exposition.Counter && sums != nil {
				r.values[i] = sums[i]
			}
		}
	}
	c.totals.groups = groups // jobs without an allocation are forgotten
	return combined
}

// addGauges combines the gauges of one more task.
func (c *Collector) addGauges(into, values []float64) {
	for i, v := range values {
		if math.IsNaN(v) || c.columns[i].kind == exposition.Counter {
			continue
		}
		switch {
		case c.columns[i].combine == NoCombination:
		case math.IsNaN(into[i]):
			into[i] = v
		case c.columns[i].combine == Largest:
			into[i] = max(into[i], v)
		default:
			into[i] += v
		}
	}
}

// grow adds what the counters of a task grew since the scrape before, what ended in between included. What a task had
// used before the agent ran is not counted: after a restart of the agent the totals begin again at 0, as a reader
// expects of a counter that went down.
func (c *Collector) grow(r *row) {
	sums := c.totals.groups[r.labels.Text()]
	if sums == nil {
		sums = absent(len(c.columns))
		c.totals.groups[r.labels.Text()] = sums
	}
	key := taskKey{r.alloc.ID, r.task.Name}
	last, known := c.totals.tasks[key]
	if !known {
		last = &lastRead{values: absent(len(c.columns))}
		c.totals.tasks[key] = last
	}
	last.visited = true
	for i := range c.columns {
		if c.columns[i].kind != exposition.Counter {
			continue
		}
		now := r.values[i]
		if math.IsNaN(now) {
			continue
		}
		if math.IsNaN(sums[i]) {
			sums[i] = 0
		}
		switch before := last.values[i]; {
		case !math.IsNaN(before):
			now = max(now, before)
			sums[i] += now - before
		case !r.alloc.CreateTime.Before(c.began):
			sums[i] += now
		}
		last.values[i] = now
	}
}

// absent is n values that were not measured.
func absent(n int) []float64 { return appendAbsent(nil, n) }

func appendAbsent(values []float64, n int) []float64 {
	values = slices.Grow(values, n)
	for range n {
		values = append(values, math.NaN())
	}
	return values
}
