// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/exposition"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

// How far series are told apart: the words of telemetry { allocation_detail }.
const (
	DetailNone  = "none"
	DetailJob   = "job"
	DetailTask  = "task"
	DetailAlloc = "alloc"
)

// row is what is known of one task at one scrape.
type row struct {
	alloc *allocation.Allocation
	task  *allocation.Task
	usage *figures.Figures
	// at is the moment of the scrape.
	at time.Time
	// labels are those of the configured detail, and info those of tacho_task_info.
	labels, info *exposition.Labels
	// values are by column; NaN if nothing was measured.
	values []float64
}

// readTasks reads every task, ordered by its labels.
func (c *Collector) readTasks(now *snapshot.Agent, common *exposition.Labels, into *scratch) []row {
	telemetry := now.Config.Telemetry
	detail, meta := telemetry.AllocationDetail, newMetadata(telemetry)
	if detail == DetailNone {
		return nil
	}
	tasks := 0
	for _, a := range now.Allocations {
		tasks += len(a.Tasks)
	}
	rows, values := slices.Grow(into.rows[:0], tasks), slices.Grow(into.values[:0], tasks*len(c.columns))
	into.shareLabels(common, detail, meta)
	for _, a := range now.Allocations {
		for name, t := range a.Tasks {
			labels := into.labelsOf(a, name, common, detail, meta)
			r := row{alloc: a, task: t, usage: now.Usage(t), at: c.now(), labels: labels.labels, info: labels.info}
			values = appendAbsent(values, len(c.columns))
			r.values = values[len(values)-len(c.columns):]
			c.read(&r)
			rows = append(rows, r)
		}
	}
	into.rows, into.values = rows, values
	slices.SortFunc(rows, func(x, y row) int { return strings.Compare(x.labels.Text(), y.labels.Text()) })
	return rows
}

// shareLabels forgets the labels of the page before if those of this one are made differently.
func (s *scratch) shareLabels(common *exposition.Labels, detail string, meta metadata) {
	key := strings.Join(append([]string{common.Text(), detail, strconv.FormatBool(meta.wanted)}, meta.allowed...), "\x00")
	if s.labels == nil || s.labelsKey != key {
		s.labels, s.labelsKey = make(map[*allocation.Task]taskLabels), key
	}
}

// labelsOf returns the labels of a task, those of the page before if it has not changed.
func (s *scratch) labelsOf(a *allocation.Allocation, name string, common *exposition.Labels, detail string, meta metadata) taskLabels {
	t := a.Tasks[name]
	l, known := s.labels[t]
	if known {
		return l
	}
	l.labels = labelsOf(a, name, common, detail, meta.labels(t.Meta))
	if detail == DetailAlloc {
		l.info = l.labels.With(exposition.Label{Name: "driver", Value: t.Driver}, exposition.Label{Name: "state", Value: string(t.State.Phase)},
			exposition.Label{Name: "outcome", Value: string(t.Outcome)}, exposition.Label{Name: "type", Value: a.JobType})
	}
	s.labels[t] = l
	return l
}

// labelsOf are the five labels that Nomad's metrics have, as many of them as the detail lets through, and more.
func labelsOf(a *allocation.Allocation, task string, common *exposition.Labels, detail string, more []exposition.Label) *exposition.Labels {
	id, group := a.ID, a.Group
	switch detail {
	case DetailJob:
		id, group, task = "", "", ""
	case DetailTask:
		id = ""
	}
	return common.With(append([]exposition.Label{
		{Name: "alloc_id", Value: id}, {Name: "job", Value: a.JobID}, {Name: "namespace", Value: a.Namespace}, {Name: "task", Value: task}, {Name: "task_group", Value: group},
	}, more...)...)
}

// read fills the columns of a task. What is not fresh is not there: the usage's Reason says why. Counters are of all
// starts: those that have ended and, once it was read, the present one.
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
	for id, ended := range r.usage.Totals.Counters {
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

// ownColumns are what the agent knows of a task besides the table. The counters among them stay when it has ended.
func ownColumns() []column {
	return []column{
		{
			name: exposition.Prefix + "exits_total", kind: exposition.Counter, combine: Sum, own: exits,
			help: "Number of times the task ended, including starts that failed.",
		},
		{
			name: exposition.Prefix + "memory_limit_bytes", combine: Sum, own: memoryLimit,
			help: "The hard memory limit that the job file sets.",
		},
		{
			name: exposition.Prefix + "oom_kills_total", kind: exposition.Counter, combine: Sum, own: oomKills,
			help: "OOM kills in all starts of the task, as counted by the kernel, or 1 for a start of which only the end is known.",
		},
		{
			name: exposition.Prefix + "restarts_total", kind: exposition.Counter, combine: Sum, own: restarts,
			help: "Restarts of the task, both requested and by restart policy.",
		},
		{
			name: exposition.Prefix + "sample_age_seconds", combine: Largest, own: sampleAge,
			help: "Time since the task was read, even if that is too long for the other gauges.",
		},
		{
			name: exposition.Prefix + "samples_late", combine: Sum, own: late,
			help: "Samples that were more than an interval late, since the agent's start.",
		},
		{
			name: exposition.Prefix + "start_time_seconds", combine: NoCombination, own: startTime,
			help: "Time of the last start of the task, since the epoch.",
		},
	}
}

func exits(r *row) float64 { return float64(r.task.Ends) }

func restarts(r *row) float64 { return float64(r.task.State.Restarts) }

func memoryLimit(r *row) float64 {
	limit := r.task.Resources.MemoryLimitBytes()
	if limit <= 0 || r.task.State.Phase != hook.PhaseRunning {
		return math.NaN()
	}
	return float64(limit)
}

// oomKills continues while the task runs if its driver does not count them. Kills that were not counted are not 0.
func oomKills(r *row) float64 {
	if kills, ok := r.usage.OOMKills(); ok {
		return kills
	}
	return math.NaN()
}

func sampleAge(r *row) float64 {
	if r.usage.Sample == nil || !r.usage.Running {
		return math.NaN()
	}
	return max(0, r.at.Sub(r.usage.Sample.Wall).Seconds())
}

func late(r *row) float64 {
	if !r.usage.Running {
		return math.NaN()
	}
	return float64(r.usage.Backlogged)
}

func startTime(r *row) float64 {
	if r.task.State.Phase != hook.PhaseRunning || r.task.State.StartedAt.IsZero() {
		return math.NaN()
	}
	return float64(r.task.State.StartedAt.UnixNano()) / 1e9
}

// shownAfterEnd is how long the counters of a dead task are shown, for every reader to see their last values: as long as
// Prometheus looks back.
const shownAfterEnd = 5 * time.Minute

// removeEnded removes the table's counters of a task that died a while ago: they are in its final record.
func (c *Collector) removeEnded(r *row) {
	if r.task.State.Phase != hook.PhaseDead || r.at.Sub(r.task.State.FinishedAt) < shownAfterEnd {
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
	var info families
	missing, usual := exposition.AbsentFamily(), procstats.DefaultSelection()
	if detail == DetailAlloc {
		for i := range rows {
			r := &rows[i]
			c.removeEnded(r)
			info.gauge("tacho_task_info", "Properties of a task as labels, always 1. Only with allocation_detail alloc.", r.info, 1)
			if r.usage.Fresh() {
				missing.AddAbsent(r.labels, r.usage.Sample, usual)
			}
		}
	} else {
		rows = c.combineRows(rows)
	}
	all := slices.Grow(append(info, missing), len(c.columns))
	samples := into.samples[:0]
	if n := present(rows); n > cap(samples) {
		samples = make([]exposition.Sample, 0, n)
	}
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

// present counts the values of rows that were measured.
func present(rows []row) (n int) {
	for i := range rows {
		for _, v := range rows[i].values {
			if !math.IsNaN(v) {
				n++
			}
		}
	}
	return n
}
