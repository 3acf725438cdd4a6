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
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/figures"
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
		r.WallSeconds = new(evidence.Wall.Seconds())
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

// parts are what runs of an allocation.
type parts struct {
	job   *job.Job
	group *job.Group
	tasks []*Task // by rank, and then in the order of the job file
}

// ended is what stays in memory of an allocation that has ended, of which an agent has thousands. The rest is in the
// state and in files, and is read from there when it is asked for.
type ended struct {
	status allocation.Status
	tasks  map[string]*allocation.Task // without events and attributes
	ports  []allocation.Port
	totals map[string]figures.Figures // without counters
}

func (a *Alloc) newParts(j *job.Job, tasks map[string]*state.Task) (*parts, error) {
	p := &parts{job: j, group: j.Group(a.Group)}
	if p.group == nil {
		return nil, fmt.Errorf("allocation %s: job %s has no group %s", a.ID, j.ID, a.Group)
	}
	for _, spec := range p.group.Tasks {
		var own state.Task
		if tasks[spec.Name] != nil {
			own = *tasks[spec.Name]
		}
		p.tasks = append(p.tasks, a.newTask(p, spec, own))
	}
	slices.SortStableFunc(p.tasks, func(a, b *Task) int { return a.rank() - b.rank() })
	return p, nil
}

// Tasks returns the tasks of an allocation that has not ended, by rank: in the order in which they end.
func (a *Alloc) Tasks() []*Task {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live == nil {
		return nil
	}
	return a.live.tasks
}

// endedTask returns a task of an allocation that has ended: its history and its record can be read.
func (a *Alloc) endedTask(shown *allocation.Task) *Task {
	t := &Task{
		host: a.host, alloc: a, spec: &job.Task{Name: shown.Name}, log: a.log().With("task", shown.Name),
		persisted: state.Task{State: shown.State},
	}
	t.usage = &usage{history: t.newHistory()}
	_ = t.usage.history.Rest(a.host.Context) // nothing is pending: each look opens the file
	return t
}

func (a *Alloc) log() hclog.Logger { return a.host.Log.With("alloc_id", a.ID, "job", a.JobID) }

// persistEnd persists all that is forgotten at the end.
func (a *Alloc) persistEnd(own *state.Allocation) {
	changes := []state.Change{state.ChangeAllocation(own)}
	for _, t := range a.Tasks() {
		t.saving.Lock()
		defer t.saving.Unlock()
		changes = append(changes, t.changed(func(*state.Task) {}))
	}
	a.host.Persist(changes...)
}

// rest closes the files of an allocation that has ended and forgets what the state has, unless the disk hangs: what
// could not be written is told when the agent closes it.
func (a *Alloc) rest() {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(a.host.Context, limit)
	defer cancel()
	for _, t := range a.Tasks() {
		if err := t.usage.history.Rest(ctx); err != nil {
			t.log.Debug("close history of an ended task", "error", err)
			return
		}
	}
	s := a.Snapshot()
	left := &ended{
		status: s.ClientStatus, ports: s.Ports, tasks: make(map[string]*allocation.Task, len(s.Tasks)),
		totals: make(map[string]figures.Figures, len(s.Tasks)),
	}
	for _, t := range a.Tasks() {
		name, f := t.spec.Name, t.Figures("")
		totals := figures.Figures{
			Totals: f.Totals, Counted: f.Counted, Interval: f.Interval, Reason: f.Reason,
			Stored: func() map[procstats.ID]float64 { return a.stored(name).Totals.Counters },
		}
		totals.Totals.Counters = nil
		left.totals[name] = totals
		shown := *s.Tasks[name]
		shown.Events, shown.Attributes = nil, nil
		shown.Stored = func() ([]allocation.Event, map[string]string) {
			own := a.stored(name)
			return own.Events, own.Attributes
		}
		left.tasks[name] = &shown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.live, a.shown = left, nil, nil
}

// stored reads what is persisted of a task of an allocation that has ended.
func (a *Alloc) stored(task string) *state.Task {
	own, err := a.host.Store.Task(a.ID, task)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // it is being removed
			a.log().Error("read ended task", "task", task, "error", err)
		}
		return &state.Task{}
	}
	return own
}

// taskChanged is called when a task's snapshot is another.
func (a *Alloc) taskChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = nil
}

// Snapshot returns the allocation as it is now: the same value until it changes.
func (a *Alloc) Snapshot() *allocation.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown == nil {
		a.shown = a.newSnapshot()
	}
	return a.shown
}

// Figures returns what is known of the tasks, by name. notPublishing says why tasks are not sampled; empty if they are.
func (a *Alloc) Figures(notPublishing string) map[string]*figures.Figures {
	a.mu.Lock()
	live, left := a.live, a.ended
	a.mu.Unlock()
	all := make(map[string]*figures.Figures, 1)
	if live == nil {
		for name, f := range left.totals {
			f.Reason = cmp.Or(notPublishing, f.Reason)
			all[name] = &f
		}
		return all
	}
	for _, t := range live.tasks {
		all[t.spec.Name] = t.Figures(notPublishing)
	}
	return all
}

// newSnapshot returns the allocation as it is now; a.mu is held.
func (a *Alloc) newSnapshot() *allocation.Allocation {
	own, node := &a.persisted, &a.host.Node
	s := &allocation.Allocation{
		ID: a.ID, Namespace: own.Namespace, JobID: own.JobID, JobType: own.JobType, JobVersion: own.JobVersion,
		Group: own.Group, Name: a.Name(), Index: own.Index, NodeID: node.ID, NodeName: node.Name,
		DesiredStatus: own.Desired, Description: own.Description, Dir: a.Dir, CreateTime: own.CreateTime,
		ModifyTime: own.ModifyTime, CreateIndex: own.CreateIndex, ModifyIndex: own.ModifyIndex,
		Previous: own.Previous, Next: own.Next, Rescheduled: a.rescheduled, Over: a.over,
	}
	if a.live == nil {
		s.Tasks, s.Ports, s.ClientStatus = a.ended.tasks, a.ended.ports, a.ended.status
	} else {
		s.Tasks = make(map[string]*allocation.Task, len(a.live.tasks))
		for _, t := range a.live.tasks {
			s.Tasks[t.spec.Name] = t.snapshot()
		}
		s.ClientStatus = statusOf(s.Tasks)
		if s.ClientStatus == allocation.Pending &&
			(own.Desired == allocation.DesiredStop || endReason(progressOf(a.live.tasks), "") != "") {
			s.ClientStatus = cmp.Or(a.status, allocation.Pending) // nothing is to run any more but poststop tasks
		}
		a.status = s.ClientStatus
		for _, p := range a.live.group.Ports {
			s.Ports = append(s.Ports, allocation.Port{
				Label: p.Label, Value: own.Ports[p.Label], To: p.To, HostIP: node.Attributes["unique.network.ip-address"],
			})
		}
	}
	if a.persisted.NotRemoved != "" {
		s.Description = "not removed: " + a.persisted.NotRemoved
	}
	s.Description = cmp.Or(s.Description, describe(s.ClientStatus, s.Tasks))
	return s
}

// statusOf returns what tasks come to together.
func statusOf(tasks map[string]*allocation.Task) allocation.Status {
	failed, running, dead := false, false, true
	for _, t := range tasks {
		failed = failed || t.State.Failed
		running = running || t.State.Phase == hook.PhaseRunning
		dead = dead && t.State.Phase == hook.PhaseDead
	}
	switch {
	case failed:
		return allocation.Failed
	case dead:
		return allocation.Complete
	case running:
		return allocation.Running
	}
	return allocation.Pending
}

func describe(s allocation.Status, tasks map[string]*allocation.Task) string {
	switch s {
	case allocation.Running:
		return "Tasks are running"
	case allocation.Complete:
		return "All tasks have completed"
	case allocation.Failed:
		for _, name := range slices.Sorted(maps.Keys(tasks)) {
			switch s := tasks[name].State; {
			case s.Failed && s.Cause == hook.CauseHost:
				return fmt.Sprintf("Task %s failed on the host's account: retries did not help", name)
			case s.Failed:
				return fmt.Sprintf("Task %s failed: no restart attempt is left", name)
			}
		}
	}
	return "No task runs yet"
}
