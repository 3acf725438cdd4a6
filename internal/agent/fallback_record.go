// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/procstats"
)

// fallbackRecord is the final record of a task whose driver keeps none, or whose executor was lost: what the agent itself
// knows of it, and what the driver has saved of its totals; nil if it has not.
func (t *task) fallbackRecord(exit hook.Exit, persisted state.Task, saved *record.Record) *record.Record {
	last, headlines := t.lastReading(persisted.Starts)
	evidence := record.Evidence{ExitCode: exit.Code, Signal: exit.Signal, EndedAt: exit.At}
	r := &record.Record{
		SchemaVersion: record.SchemaVersion, TachoVersion: version.String(), State: record.Exited, ID: t.alloc.id,
		StartedAt: persisted.State.StartedAt, EndedAt: exit.At, Headline: map[string]record.HeadlineValue{},
		Measurements: map[string]any{}, Absent: map[string]string{}, Sources: []record.Source{}, Selection: []string{},
		Labels: map[string]string{
			"alloc_id": t.alloc.id, "job": t.alloc.job.Name, "task_group": t.alloc.group.Name, "task": t.spec.Name,
			"namespace": t.alloc.job.Namespace, "node": t.agent.node.Name,
		},
		Host:  record.Host{Name: t.agent.node.Name, OS: runtime.GOOS, CPUs: runtime.NumCPU()},
		Notes: []string{"the driver has no final record of this task: these are the last readings that the agent saw"},
	}
	r.ID = cmp.Or(persisted.RunID, r.ID)
	if exit.Lost != "" {
		r.State, evidence.Cause = record.Lost, record.ExecutorLost
		r.Message = exit.Lost
		evidence.Reason = strings.TrimPrefix(exit.Lost, string(record.ExecutorLost)+": ")
	} else {
		r.ExitCode = &exit.Code
		if exit.Signal != 0 {
			r.Signal = &exit.Signal
		}
	}
	if exit.OOMKilled {
		evidence.Kills = []record.Kill{{At: exit.At, Kills: 1, Reason: "the driver does not say which process it was"}}
	}
	if !exit.At.IsZero() && !persisted.State.StartedAt.IsZero() {
		evidence.Wall = exit.At.Sub(persisted.State.StartedAt)
		seconds := evidence.Wall.Seconds()
		r.WallSeconds = &seconds
	}
	if last != nil && !last.Wall.Before(persisted.State.StartedAt) {
		if !exit.At.IsZero() {
			evidence.Last, evidence.LastHeadlines, evidence.LastAge = last, headlines, exit.At.Sub(last.Wall)
		}
		r.Samples = 1
		r.Measurements, r.Absent = record.Values(last.Task)
		r.Headline = record.Headlines(headlines)
	}
	if saved != nil {
		r.Notes = []string{"the executor was lost: totals are what the cgroup had counted then, the rest is from the last reading"}
		takeTotals(r, saved)
	}
	r.Diagnosis = record.Diagnose(evidence)
	return r
}

// takeTotals puts what a driver has saved into a record, in place of older readings.
func takeTotals(into, saved *record.Record) {
	maps.Copy(into.Measurements, saved.Measurements)
	for name := range saved.Measurements {
		delete(into.Absent, name)
	}
	for name, h := range saved.Headline {
		if h.Value != nil {
			into.Headline[name] = h
		}
	}
	into.Commands, into.Sources = saved.Commands, append(into.Sources, saved.Sources...)
}

// lastReading returns the last reading of a start while the task had a process; if an agent before this one took it, the
// last in the history.
func (t *task) lastReading(run int) (*procstats.Sample, []procstats.HeadlineValue) {
	t.usage.mu.Lock()
	last, headlines := t.usage.tracker.Last()
	t.usage.mu.Unlock()
	if last != nil {
		return last, headlines
	}
	points, err := t.usage.history.Points(series.Query{Nearest: time.Now()})
	if err != nil {
		t.log.Debug("read last reading", "error", err)
	}
	if len(points) == 0 || points[0].Run != run {
		return nil, nil
	}
	s := &procstats.Sample{Stamp: points[0].Stamp}
	for id, v := range points[0].Values {
		if m, known := procstats.Lookup(id); known && m.Scope == procstats.TaskScope {
			s.SetNumber(id, v)
		}
	}
	return s, procstats.Headlines(s, procstats.History{})
}

// hostName is the machine's name; empty where it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
