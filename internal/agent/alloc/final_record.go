// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"strings"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/procstats"
)

// recorder is the hook that persists the final record of every end.
type recorder Task

// Name implements hook.Hook.
func (r *recorder) Name() string { return "record" }

// Exited implements hook.Exited. It is called after the stats hook: no reading comes any more. An agent that was killed
// meanwhile calls it again for the same end.
func (r *recorder) Exited(_ context.Context, req *hook.ExitedRequest) error {
	t := (*Task)(r)
	t.mu.Lock()
	persisted := t.persisted
	t.mu.Unlock()
	final, err := t.completeRecord(req.Exit, persisted)
	if final == nil && err == nil {
		final = t.recorded(persisted.RunID)
	}
	if final == nil {
		final = t.fallbackRecord(req.Exit, persisted, nil)
	}
	final.Cause = string(req.Exit.Cause)
	totals := t.usage.end(final)
	t.mu.Lock()
	// Persisted with the next event: without one this is called again.
	t.persisted.Totals = totals
	t.persisted.Outcome = ""
	if err == nil {
		t.persisted.Outcome = final.End().Outcome
	}
	t.mu.Unlock()
	t.alloc.taskChanged()
	if err != nil {
		return err
	}
	t.host.Persist(state.ChangeRecord(t.alloc.ID, t.spec.Name, final))
	failpoint.At("agent.exited.recorded")
	return nil
}

// driversRecord returns the driver's final record of the last start that was not destroyed yet; nil if it has none.
func (t *Task) driversRecord() (*record.Record, error) {
	h, _ := t.persistedHandle()
	if h == nil {
		return nil, nil
	}
	final, err := t.host.Driver.FinalRecord(h.Config.ID)
	switch {
	case errors.Is(err, driver.ErrTaskNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("final record: %w", err)
	}
	return final, nil
}

// persistedHandle returns the driver's handle of a start that is not destroyed yet, and whether it has ended.
func (t *Task) persistedHandle() (h *driver.TaskHandle, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.persisted.Handle, t.persisted.Ended
}

// completeRecord returns the driver's final record, with what the agent knows of a task whose executor was lost.
func (t *Task) completeRecord(exit hook.Exit, persisted state.Task) (*record.Record, error) {
	final, err := t.driversRecord()
	if final != nil && final.State == record.Lost {
		final = t.fallbackRecord(exit, persisted, final)
	}
	return final, err
}

// recorded returns the final record that is persisted of a start; nil if there is none, or only of an earlier start.
func (t *Task) recorded(runID string) *record.Record {
	r, err := t.host.Store.Record(t.alloc.ID, t.spec.Name)
	if err != nil || !driver.IsRecordOf(r.ID, runID) {
		return nil
	}
	return r
}

// Record returns the final record of the last ended start. The error wraps allocation.ErrNotFound if no start has
// ended.
func (t *Task) Record() (*record.Record, error) {
	r, err := t.host.Store.Record(t.alloc.ID, t.spec.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("final record of task %s: %w", t.spec.Name, allocation.ErrNotFound)
	}
	return r, err
}

// Commands returns what the ended processes used: so far if the task runs, and otherwise those of its last ended
// start. The error wraps allocation.ErrNotFound if that is not counted.
func (t *Task) Commands() (*record.Commands, error) {
	if h, ended := t.persistedHandle(); h != nil && !ended {
		c, err := t.host.Driver.Commands(h.Config.ID)
		if c != nil || err != nil && !errors.Is(err, driver.ErrTaskNotFound) {
			return c, err
		}
	}
	r, err := t.Record()
	switch {
	case errors.Is(err, allocation.ErrNotFound):
		return nil, fmt.Errorf("commands of task %s: no start of it has ended: %w", t.spec.Name, allocation.ErrNotFound)
	case err != nil:
		return nil, err
	case r.Commands == nil:
		return nil, fmt.Errorf("commands of task %s: its record has none: %w", t.spec.Name, allocation.ErrNotFound)
	}
	return r.Commands, nil
}

// fallbackRecord returns the final record of a task whose driver has none, or whose executor was lost: what the agent
// knows of it, and the totals that the driver has saved; nil for none.
func (t *Task) fallbackRecord(exit hook.Exit, persisted state.Task, saved *record.Record) *record.Record {
	last, headlines := t.lastReading(persisted.Starts)
	evidence := record.Evidence{ExitCode: exit.Code, Signal: exit.Signal, EndedAt: exit.At}
	r := &record.Record{
		Version: record.Version{SchemaVersion: record.SchemaVersion, TachoVersion: version.String()},
		State:   record.Exited, ID: t.alloc.ID,
		StartedAt: persisted.State.StartedAt, EndedAt: exit.At, Headline: map[string]record.HeadlineValue{},
		Measurements: map[string]any{}, Absent: map[string]string{},
		Surroundings: record.Surroundings{Sources: []record.Source{}, Selection: []string{}},
		About: record.About{
			Labels: map[string]string{
				"alloc_id": t.alloc.ID, "job": t.job.Name, "task_group": t.group.Name, "task": t.spec.Name,
				"namespace": t.job.Namespace, "node": t.host.Node.Name,
			},
			Host:  record.Host{Name: t.host.Node.Name, OS: runtime.GOOS, CPUs: runtime.NumCPU()},
			Notes: []string{"the driver has no final record of this task: these are the last readings that the agent saw"},
		},
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
		evidence.Wall = max(0, exit.At.Sub(persisted.State.StartedAt)) // the clock may have been set
		seconds := evidence.Wall.Seconds()
		r.WallSeconds = &seconds
	}
	if last != nil {
		if !exit.At.IsZero() {
			evidence.Last, evidence.LastHeadlines, evidence.LastAge = last, headlines, max(0, exit.At.Sub(last.Wall))
		}
		r.Samples = 1
		r.SetMeasured(last)
		r.Headline = record.Headlines(headlines)
	}
	if saved != nil {
		const text = "the executor was lost: totals are what the cgroup had counted then, the rest is from the last reading"
		r.Notes[0] = text
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

// lastReading returns the last reading of a start while the task had a process; if an agent before this one took it,
// the last in the history.
func (t *Task) lastReading(run int) (*procstats.Sample, []procstats.HeadlineValue) {
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
