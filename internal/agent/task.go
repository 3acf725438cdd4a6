// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/registry"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats/kernel"
)

// task is one task of an allocation: what starts it, what is persisted of it, and who runs it.
type task struct {
	agent *Agent
	alloc *alloc
	spec  *job.Task
	log   hclog.Logger
	usage *usage
	stats *hook.StatsHook
	// runner runs the task; its Run is called once.
	runner *hook.Runner

	// saving keeps what is stored in the order in which it happened.
	saving sync.Mutex

	mu        sync.Mutex // guards following
	persisted state.Task
	launched  bool
	over      bool // the runner's Run has returned with the task dead
	handle    *handle
}

var (
	_ hook.Starter  = (*task)(nil)
	_ hook.Observer = (*task)(nil)
)

// newTask makes a task of an allocation, from what an earlier run of the agent persisted of it.
func (a *alloc) newTask(spec *job.Task, persisted state.Task) *task {
	agent := a.agent
	t := &task{
		agent: agent, alloc: a, spec: spec, persisted: persisted,
		log: a.log.With("task", spec.Name),
	}
	c := agent.current()
	t.usage = &usage{
		log: t.log,
		history: agent.history.Queue(
			a.dir.History(spec.Name), a.dir.EarlierHistory(spec.Name), c.History.Points(), t.log),
		interval: c.Telemetry.CollectionInterval, keep: c.History.Interval, counts: &agent.counts,
		tracker: figures.NewTracker(kernel.CPUs(kernel.HostFS()), persisted.Starts, persisted.Totals),
	}
	t.stats = hook.NewStatsHook(hook.StatsConfig{
		Interval: c.Telemetry.CollectionInterval, Publish: c.Telemetry.PublishAllocationMetrics, Updater: t.usage,
		Logger: t.log,
	})
	t.usage.err = t.stats.Err
	if persisted.Starts > 0 { // by an earlier run: nothing was read since
		t.usage.mark(series.GapAgent)
	}
	return t
}

// prepare makes the runner. recovered is the handle of a task that was started by an earlier run of the agent.
func (t *task) prepare(recovered *handle) {
	config := hook.Config{
		Starter: t, Hooks: []hook.Hook{t.stats, (*recorder)(t)}, Restart: t.spec.Policy(t.alloc.job.Type),
		Retry:      func() bool { return t.agent.current().Client.RetryHostOOM },
		KillSignal: t.spec.KillSignal, KillTimeout: t.spec.KillTimeout, Observer: t, Logger: t.log, State: t.persisted.State,
	}
	if recovered != nil {
		config.Recovered = recovered
		t.handle = recovered
	}
	t.runner = hook.New(config)
}

// progress is how far the task is.
func (t *task) progress() progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return progress{
		name: t.spec.Name, lifecycle: t.spec.Lifecycle, leader: t.spec.Leader, launched: t.launched,
		started: !t.persisted.State.StartedAt.IsZero(), dead: t.over || t.persisted.State.Phase == hook.PhaseDead,
		failed: t.persisted.State.Failed,
	}
}

// run runs the task until it is dead or ctx is done.
func (t *task) run(ctx context.Context) {
	err := t.runner.Run(ctx)
	if err == nil {
		t.mu.Lock()
		t.over = true
		t.mu.Unlock()
	}
	t.alloc.wake()
}

// Start implements hook.Starter: it starts the task and keeps the handle before anybody learns of it.
func (t *task) Start(ctx context.Context) (hook.Handle, error) {
	if err := registry.Check(t.spec.Driver); err != nil {
		return nil, err
	}
	config, err := t.taskConfig()
	if err != nil {
		return nil, forRunner(err)
	}
	if err := t.persistStart(config); err != nil {
		return nil, err
	}
	failpoint.At("agent.start.intended")
	started, _, err := t.agent.driver.StartTask(ctx, config)
	if err != nil {
		t.notStarted()
		return nil, forStart(err)
	}
	h := &handle{id: config.ID, driver: t.agent.driver, usage: t.usage}
	failpoint.At("agent.start.started")
	t.started(started, t.inspect(ctx, config.ID))
	t.mu.Lock()
	t.handle = h
	run := t.persisted.Starts
	t.mu.Unlock()
	t.usage.begin(run, time.Now())
	return h, nil
}

// persistStart persists what the driver is about to start: an agent that is killed before it has persisted the handle adopts
// the task, or ends it, and starts no second one. If that fails nothing is started.
func (t *task) persistStart(config *driver.TaskConfig) error {
	config.Persisted = true
	config.Sampled = t.agent.current().Telemetry.PublishAllocationMetrics
	if err := t.apply(func(persisted *state.Task) { persisted.Starting = config }); err != nil {
		return startError{err, true}
	}
	return nil
}

// started persists the handle of a start. Until that succeeds, a new agent adopts the task.
func (t *task) started(h *driver.TaskHandle, attributes map[string]string) {
	t.update(func(persisted *state.Task) {
		persisted.RunID, persisted.Handle, persisted.Attributes = h.Config.ID, h, attributes
		persisted.Ended, persisted.Starting, persisted.Outcome = false, nil, ""
		persisted.Starts++
	})
}

// notStarted forgets a start that failed; the next event persists that. Until then there is none to be found.
func (t *task) notStarted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.persisted.Starting = nil
}

// inspect returns what the driver says of a started task, for people.
func (t *task) inspect(ctx context.Context, id string) map[string]string {
	status, err := t.agent.driver.InspectTask(ctx, id)
	if err != nil {
		t.log.Debug("inspect task", "error", err)
		return nil
	}
	return status.Attributes
}

// startError has what the driver says of trying again.
type startError struct {
	error
	recoverable bool
}

// Recoverable implements hook.Recoverable.
func (e startError) Recoverable() bool { return e.recoverable }

// Unwrap returns the driver's error.
func (e startError) Unwrap() error { return e.error }

func forStart(err error) error {
	if errors.Is(err, driver.ErrUnavailable) {
		return forRunner(err)
	}
	if recoverable, known := driver.IsRecoverable(err); known {
		return startError{err, recoverable}
	}
	return err
}

// TaskChanged implements hook.Observer: what happened is on disk when it returns.
func (t *task) TaskChanged(s hook.State, e hook.Event) {
	event := allocation.Event{Type: e.Type, Time: e.Time, Message: e.Message}
	if e.Type == hook.EventTerminated {
		event.Details = t.endDetails()
		addExit(event.Details, s.Exit)
	}
	t.update(func(persisted *state.Task) {
		persisted.State = s
		switch e.Type {
		case hook.EventTerminated, hook.EventDriverFailure, hook.EventHookFailed:
			persisted.Ends++
		}
		switch {
		case e.Type == hook.EventTerminated:
			persisted.Ended = true
		case e.Type == hook.EventRestarting, s.Phase == hook.PhaseDead: // it was destroyed before
			persisted.Handle, persisted.Ended = nil, false
		}
		persisted.Events = appendEvent(persisted.Events, event)
	})
	switch e.Type {
	case hook.EventRecovered:
		t.usage.begin(t.starts(), s.StartedAt)
	case hook.EventTerminated:
		t.mu.Lock()
		t.handle = nil
		t.mu.Unlock()
	}
	t.alloc.onTaskEvent(t, event)
}

// endDetails are the counters of the event of an end: from memory, as a disk may hang.
func (t *task) endDetails() map[string]string {
	t.mu.Lock()
	handle := t.persisted.Handle
	t.mu.Unlock()
	final, err := t.driversRecord(handle)
	if err != nil {
		t.log.Debug("read counters of the end", "error", err)
	}
	if final == nil {
		final = &record.Record{Measurements: t.usage.measurements()}
	}
	return final.EndCounters()
}

// addExit adds an exit that was observed.
func addExit(details map[string]string, exit *hook.Exit) {
	if exit == nil || exit.Lost != "" {
		return
	}
	details[allocation.DetailExitCode], details[allocation.DetailSignal] = strconv.Itoa(exit.Code), strconv.Itoa(exit.Signal)
	details[allocation.DetailOOMKilled] = strconv.FormatBool(exit.OOMKilled)
}

func (t *task) starts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.persisted.Starts
}

// onDriverEvent takes an event of the driver's. The driver reports the end of a task when its host has handled the events before
// it, one after the other: no end waits for the disk, least of all for the events of other tasks.
func (t *task) onDriverEvent(e *driver.Event) {
	event := allocation.Event{Type: allocation.EventDriver, Time: e.Timestamp, Message: e.Message, Details: maps.Clone(e.Annotations)}
	event.Redacted = event.Details[driver.AnnotationRedacted]
	delete(event.Details, driver.AnnotationRedacted)
	t.mu.Lock()
	t.persisted.Events = appendEvent(t.persisted.Events, event)
	t.mu.Unlock()
	t.alloc.taskChanged()
	t.agent.work.Go(func() { t.update(func(*state.Task) {}) })
	t.alloc.onTaskEvent(t, event)
}

// snapshot is the task for whoever asks.
func (t *task) snapshot() *allocation.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &allocation.Task{
		Name: t.spec.Name, Driver: t.spec.Driver, Lifecycle: t.spec.Lifecycle, Resources: t.spec.Resources, Meta: t.spec.Meta,
		NoLogs: t.spec.Logs != nil && t.spec.Logs.Disabled,
		Cores:  coreList(t.alloc.persisted.Cores[t.spec.Name]), State: t.persisted.State, Events: t.persisted.Events,
		Attributes: t.persisted.Attributes, RunID: t.persisted.RunID, Ends: t.persisted.Ends, Outcome: t.persisted.Outcome,
	}
	if s.RunID == "" && t.persisted.Handle != nil { // persisted by an earlier version
		s.RunID = t.persisted.Handle.Config.ID
	}
	return s
}

// persistedHandle is the driver's handle of a start that is not destroyed yet; ended says whether it has ended.
func (t *task) persistedHandle() (h *driver.TaskHandle, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.persisted.Handle, t.persisted.Ended
}

// running returns the handle of the running task.
func (t *task) running() (*handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle == nil {
		return nil, fmt.Errorf("task %s: %w", t.spec.Name, hook.ErrNotRunning)
	}
	return t.handle, nil
}

// newRunID names a start of a task for its driver.
func newRunID(allocID, name string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return allocID + "/" + name + "/" + hex.EncodeToString(b[:])
}

// recorder is the hook that persists the final record of every end.
type recorder task

// Name implements hook.Hook.
func (r *recorder) Name() string { return "record" }

// Exited implements hook.Exited. It is called after the stats hook: no reading comes any more. An agent that was killed
// meanwhile calls it again for the same end.
func (r *recorder) Exited(_ context.Context, req *hook.ExitedRequest) error {
	t := (*task)(r)
	t.mu.Lock()
	persisted := t.persisted
	t.mu.Unlock()
	final, err := t.completeRecord(req.Exit, persisted)
	if final == nil && err == nil {
		final = t.recorded(persisted.State)
	}
	if final == nil {
		final = t.fallbackRecord(req.Exit, persisted, nil)
	}
	totals := t.usage.end(final)
	t.mu.Lock()
	// Stored with the next event: without one this is called again.
	t.persisted.Totals = totals
	if err == nil {
		t.persisted.Outcome = final.End().Outcome
	}
	t.mu.Unlock()
	t.alloc.taskChanged()
	if err != nil {
		return err
	}
	t.agent.persist(state.ChangeRecord(t.alloc.id, t.spec.Name, final))
	failpoint.At("agent.exited.recorded")
	return nil
}

// driversRecord is the driver's final record of an ended start; nil where the driver has none.
func (t *task) driversRecord(h *driver.TaskHandle) (*record.Record, error) {
	if h == nil {
		return nil, nil
	}
	final, err := t.agent.driver.FinalRecord(h.Config.ID)
	switch {
	case errors.Is(err, driver.ErrTaskNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("final record: %w", err)
	}
	return final, nil
}

// commands is what the processes of the running start used that have ended; nil if it does not run, or the driver does not know.
func (t *task) commands() (*record.Commands, error) {
	h, ended := t.persistedHandle()
	if h == nil || ended {
		return nil, nil
	}
	c, err := t.agent.driver.Commands(h.Config.ID)
	if errors.Is(err, driver.ErrTaskNotFound) {
		return nil, nil
	}
	return c, err
}

// completeRecord is the driver's final record with what the agent knows of a task whose executor was lost.
func (t *task) completeRecord(exit hook.Exit, persisted state.Task) (*record.Record, error) {
	final, err := t.driversRecord(persisted.Handle)
	if final != nil && final.State == record.Lost {
		final = t.fallbackRecord(exit, persisted, final)
	}
	return final, err
}

// recorded is the final record that is persisted of the last start; nil where there is none, or only of a start before it.
func (t *task) recorded(s hook.State) *record.Record {
	r, err := t.agent.store.Record(t.alloc.id, t.spec.Name)
	if err != nil || r.StartedAt.Before(s.LastRestart) {
		return nil
	}
	return r
}
