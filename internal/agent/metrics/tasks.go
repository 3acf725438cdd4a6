// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

// Combination is how the numbers of several tasks become one, if series are by job or by task.
type Combination string

const (
	// Sum adds them up; of counters it adds the increases, so that tasks that have ended are included.
	Sum Combination = "sum"
	// Largest takes the largest: the sum of peaks at different times is the peak of nothing.
	Largest Combination = "largest"
	// NoCombination omits numbers that are only meaningful for one task.
	NoCombination Combination = "none"
)

// combine returns how a measurement of several tasks becomes one number.
func combine(id procstats.ID) Combination {
	switch id {
	case procstats.CgroupMemoryPeak, procstats.CgroupMemorySwapPeak, procstats.CgroupPidsPeak,
		procstats.RusageMaxRSS, procstats.RusagePeakRSS, procstats.HeadlineMemoryPeak, procstats.HeadlineProcessesAge,
		procstats.ExecutorInterval, procstats.ExecutorIntervalRequested:
		return Largest
	case procstats.CgroupCPUWeight, procstats.CgroupCPUShares, procstats.CgroupCPUQuotaEffective,
		procstats.CgroupCPUInheritedQuota, procstats.SkbStartTime, procstats.DiskWalkStart:
		return NoCombination
	}
	return Sum
}

// column describes a metric of tasks: a column in the matrix of tasks and metrics.
type column struct {
	id      procstats.ID
	name    string
	help    string
	kind    exposition.Type
	combine Combination
	// own computes the value of a metric that is not a measurement of the table; NaN if there is none.
	own func(*row) float64
}

// columns lists the table's measurements that are metrics, ordered by id.
func columns() []column {
	var list []column
	for _, m := range procstats.Table() {
		if f, ok := exposition.FamilyOf(m); ok {
			list = append(list, column{id: m.ID, name: f.Name, help: f.Help, kind: f.Type, combine: combine(m.ID)})
		}
	}
	return list
}

// row is one task on one page.
type row struct {
	alloc *allocation.Allocation
	task  *allocation.Task
	usage *figures.Figures
	// used is the usage in Nomad's form, for its names; nil without a fresh reading.
	used wire.Usage
	// at is the time of the page.
	at time.Time
	taskLabels
	// values are by column; NaN if nothing was measured.
	values []float64
}

// readTasks reads every task, ordered by its labels.
func (c *Collector) readTasks(now *snapshot.Agent, labels labelling, into *scratch) []row {
	if labels.detail == DetailNone {
		return nil
	}
	tasks := 0
	for _, a := range now.Allocations {
		tasks += len(a.Tasks)
	}
	rows, values := slices.Grow(into.rows[:0], tasks), slices.Grow(into.values[:0], tasks*len(c.columns))
	if key := labels.key(); into.labels == nil || into.labelsKey != key {
		into.labels, into.labelsKey = make(map[*allocation.Task]taskLabels), key
	}
	for _, a := range now.Allocations {
		for _, t := range a.Tasks {
			known, ok := into.labels[t]
			if !ok {
				known = labels.of(a, t)
				into.labels[t] = known
			}
			r := row{alloc: a, task: t, usage: now.Usage(t), at: c.now(), taskLabels: known}
			values = append(values, c.blank...)
			r.values = values[len(values)-len(c.columns):]
			c.read(&r)
			rows = append(rows, r)
		}
	}
	into.rows, into.values = rows, values
	slices.SortFunc(rows, func(x, y row) int { return strings.Compare(x.labels.Text(), y.labels.Text()) })
	return rows
}

// read fills the columns of a task from a fresh reading. Counters are of all starts: those that have ended and, once
// it was read, the present one.
func (c *Collector) read(r *row) {
	values := r.values
	if r.usage.Fresh() {
		for i := range r.usage.Sample.Task {
			c.fill(values, &r.usage.Sample.Task[i])
		}
		for i := range r.usage.Headlines {
			c.fill(values, &r.usage.Headlines[i].Reading)
		}
	}
	for _, read := range r.usage.Counters {
		if i := c.columnOf(read.ID); i >= 0 && values[i] < read.Value {
			values[i] = read.Value
		}
	}
	for id, ended := range c.totalsOf(r) {
		switch i := c.columnOf(id); {
		case i < 0:
		case r.usage.Counted:
			values[i] = ended
		default:
			values[i] += ended
		}
	}
	for i := range c.columns {
		if own := c.columns[i].own; own != nil {
			values[i] = own(r)
		}
	}
}

// fill copies a reading into its column; a newer build's measurement has none.
func (c *Collector) fill(values []float64, reading *procstats.Reading) {
	if v, ok := reading.Number(); ok {
		if i := c.columnOf(reading.ID()); i >= 0 {
			values[i] = v
		}
	}
}

// ownColumns are the metrics of tasks besides the table. The counters among them stay after the end of a task.
func ownColumns() []column {
	const counter, gauge = exposition.Counter, exposition.Gauge
	list := []column{
		{
			0, "exits_by_host_total", "Those of tacho_task_exits_total that the host is at fault for: a reboot, an executor " +
				"that died, memory that others had taken, something that the agent lacked.", counter, Sum,
			func(r *row) float64 { return float64(r.task.EndsByHost) },
		},
		{
			0, "exits_by_operator_total", "Those of tacho_task_exits_total that were asked for: stops and restarts.", counter,
			Sum, func(r *row) float64 { return float64(r.task.EndsByOperator) },
		},
		{0, "exits_total", "Number of times the task ended, including starts that failed.", counter, Sum, exits},
		{0, "memory_limit_bytes", "The hard memory limit that the job file sets.", gauge, Sum, memoryLimit},
		{0, "oom_kills_total", "OOM kills in all starts of the task, as counted by the kernel, or 1 for a start of which " +
			"only the end is known.", counter, Sum, oomKills},
		{0, "restarts_total", "Restarts of the task, both requested and by restart policy.", counter, Sum, restarts},
		{
			0, "sample_age_seconds", "Time since the task was read, even if that is too long for the other gauges.",
			gauge, Largest, sampleAge,
		},
		{0, "samples_late", "Samples that were more than an interval late, since the agent's start.", gauge, Sum, late},
		{0, "start_time_seconds", "Time of the last start of the task, since the epoch.", gauge, NoCombination, startTime},
	}
	for i := range list {
		list[i].name = exposition.Prefix + list[i].name
	}
	return list
}

func exits(r *row) float64 { return float64(r.task.Ends) }

func starts(r *row) float64 { return float64(r.task.Starts) }

func restarts(r *row) float64 { return float64(r.task.State.Restarts) }

// given returns a value, or NaN if there is none.
func given(v float64, ok bool) float64 {
	if ok {
		return v
	}
	return math.NaN()
}

func memoryLimit(r *row) float64 {
	limit := r.task.Resources.MemoryLimitBytes()
	return given(float64(limit), limit > 0 && r.task.State.Phase == hook.PhaseRunning)
}

// oomKills continues while the task runs if its driver does not count them. Kills that were not counted are not 0.
func oomKills(r *row) float64 { return given(r.usage.OOMKills()) }

func sampleAge(r *row) float64 {
	if r.usage.Sample == nil || !r.usage.Running {
		return math.NaN()
	}
	return max(0, r.at.Sub(r.usage.Sample.Wall).Seconds())
}

func late(r *row) float64 { return given(float64(r.usage.Backlogged), r.usage.Running) }

func startTime(r *row) float64 {
	s := &r.task.State
	return given(float64(s.StartedAt.UnixNano())/1e9, s.Phase == hook.PhaseRunning && !s.StartedAt.IsZero())
}

// shownAfterEnd is how long the counters of a dead task are shown, as long as Prometheus looks back: every reader
// shall see their last values.
const shownAfterEnd = 5 * time.Minute

// totalsOf returns the counters of the starts that have ended. Those of an allocation that has ended are read from the
// state only as long as they are shown.
func (c *Collector) totalsOf(r *row) map[procstats.ID]float64 {
	if r.usage.Stored != nil && !(r.info != nil && endedLongAgo(r)) {
		return r.usage.Stored()
	}
	return r.usage.Totals.Counters
}

func endedLongAgo(r *row) bool {
	s := &r.task.State
	seen := s.FinishedAt // before an agent that did not run then
	if s.Finished.Wall.After(seen) {
		seen = s.Finished.Wall
	}
	return s.Phase == hook.PhaseDead && r.at.Sub(seen).Abs() >= shownAfterEnd
}

// removeEnded removes the table's counters of a task that died a while ago: they are in its final record.
func (c *Collector) removeEnded(r *row) {
	if !endedLongAgo(r) {
		return
	}
	for i := range c.columns {
		if c.columns[i].own == nil {
			r.values[i] = math.NaN()
		}
	}
}

// taskFamilies is one family per column, tacho_task_info and tacho_task_absent_info.
func (c *Collector) taskFamilies(rows []row, detail string, into *scratch) []exposition.Family {
	all := make([]exposition.Family, 2, len(c.columns)+64)
	all[0] = exposition.Family{
		Name: "tacho_task_info", Help: "Properties of a task as labels, always 1. Only with allocation_detail alloc.",
		Type: exposition.Gauge,
	}
	all[1] = exposition.AbsentFamily()
	usual := procstats.DefaultSelection()
	if detail == DetailAlloc {
		for i := range rows {
			r := &rows[i]
			c.removeEnded(r)
			all[0].Add(r.info, 1)
			if r.usage.Fresh() {
				all[1].AddAbsent(r.labels, r.usage.Sample, usual)
			}
		}
	} else {
		rows = c.combineRows(rows)
	}
	samples := into.samples[:0]
	for i := range c.columns {
		f := exposition.Family{Name: c.columns[i].name, Help: c.columns[i].help, Type: c.columns[i].kind}
		first := len(samples)
		for j := range rows {
			if v := rows[j].values[i]; !math.IsNaN(v) {
				samples = append(samples, exposition.Sample{Labels: rows[j].labels, Value: v})
			}
		}
		f.Samples = samples[first:len(samples):len(samples)]
		all = append(all, f)
	}
	into.samples = samples
	return all
}

// totals are the counters of tasks that share their labels. A sum of counters falls when a task is removed; what is
// added up here is what each has grown under this agent.
type totals struct {
	// tasks are the values at the scrape before.
	tasks  map[taskKey][]float64
	groups map[string][]float64
}

type taskKey struct{ alloc, task string }

// combineRows returns one row for all that share their labels. rows are ordered by labels. It forgets the totals of
// tasks that were removed, and of jobs without an allocation.
func (c *Collector) combineRows(rows []row) []row {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.totals
	c.totals = totals{make(map[taskKey][]float64, len(rows)), map[string][]float64{}}
	known := func(values []float64) []float64 {
		if values == nil {
			return slices.Clone(c.blank)
		}
		return values
	}
	var combined []row
	for i := range rows {
		r := &rows[i]
		group, key := r.labels.Text(), taskKey{r.alloc.ID, r.task.Name}
		if len(combined) == 0 || combined[len(combined)-1].labels.Text() != group {
			combined = append(combined, row{taskLabels: r.taskLabels, values: slices.Clone(c.blank)})
			c.totals.groups[group] = known(before.groups[group])
		}
		c.addGauges(combined[len(combined)-1].values, r.values)
		c.totals.tasks[key] = known(before.tasks[key])
		c.grow(c.totals.groups[group], c.totals.tasks[key], r)
	}
	for _, r := range combined {
		for i, sum := range c.totals.groups[r.labels.Text()] {
			if c.columns[i].kind == exposition.Counter {
				r.values[i] = sum
			}
		}
	}
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

// grow adds to sums what the counters of a task grew since last, the scrape before, including what ended in between.
// What a task had used before the agent ran is not counted: after a restart of the agent the totals begin again at 0,
// as a reader expects of a counter that went down.
func (c *Collector) grow(sums, last []float64, r *row) {
	for i, now := range r.values {
		if c.columns[i].kind != exposition.Counter || math.IsNaN(now) {
			continue
		}
		if math.IsNaN(sums[i]) {
			sums[i] = 0
		}
		switch before := last[i]; {
		case !math.IsNaN(before):
			now = max(now, before)
			sums[i] += now - before
		case !r.alloc.CreateTime.Before(c.began):
			sums[i] += now
		}
		last[i] = now
	}
}
