// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"syscall"
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
	"github.com/tachograph/tacho/procstats/kernel"
)

// Task is one task of an allocation: what starts it, what is persisted of it, and what runs it.
type Task struct {
	host  *Host
	alloc *Alloc
	job   *job.Job
	group *job.Group
	spec  *job.Task
	log   hclog.Logger
	usage *usage
	stats *hook.StatsHook
	// runner runs the task; its Run is called once.
	runner *hook.Runner

	// saving orders what is persisted.
	saving sync.Mutex

	mu        sync.Mutex // guards following
	persisted state.Task
	launched  bool
	over      bool // the runner's Run has returned with the task dead
	handle    *handle
}

// newTask makes a task of an allocation from what an earlier run of the agent persisted of it.
func (a *Alloc) newTask(p *parts, spec *job.Task, persisted state.Task) *Task {
	h, c := a.host, a.host.Config()
	t := &Task{
		host: h, alloc: a, job: p.job, group: p.group, spec: spec, persisted: persisted,
		log: a.log().With("task", spec.Name),
	}
	t.usage = &usage{
		log: t.log, counts: &h.Counts, pulse: &h.Pulse,
		history: t.newHistory(), interval: c.Telemetry.CollectionInterval, keep: c.History.Interval,
		tracker: figures.NewTracker(kernel.CPUs(kernel.HostFS()), persisted.Starts, persisted.Totals),
	}
	return t
}

// newHistory touches no file.
func (t *Task) newHistory() *series.Queue {
	dir, name := t.alloc.Dir, t.spec.Name
	return t.host.History.Queue(dir.History(name), dir.EarlierHistory(name), t.host.Config().History.Points(), t.log)
}

// prepare makes the runner. recovered is the handle of a task that an earlier run of the agent started; nil for none.
func (t *Task) prepare(recovered *handle, publish bool) {
	t.stats = hook.NewStatsHook(hook.StatsConfig{
		Interval: t.usage.interval, Publish: publish, Updater: t.usage, Logger: t.log,
	})
	t.usage.err = t.stats.Err
	config := hook.Config{
		Starter: t, Hooks: []hook.Hook{t.stats, (*recorder)(t)}, Restart: t.spec.Policy(t.job.Type),
		Retry:      func() bool { return t.host.Config().Client.RetryHostOOM },
		KillSignal: t.spec.KillSignal, KillTimeout: t.spec.KillTimeout, Observer: t, Logger: t.log,
		State: t.persisted.State, Now: t.host.Now, Turn: t.turn,
	}
	if recovered != nil {
		config.Recovered = recovered
		t.handle = recovered
	}
	t.runner = hook.New(config)
	t.persisted.State = t.runner.State() // with the instants of earlier boots as some of this one
}

// progress is how far the task is.
func (t *Task) progress() progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	stuck := false
	if t.runner != nil {
		_, stuck = t.runner.Ending()
	}
	return progress{
		name: t.spec.Name, lifecycle: t.spec.Lifecycle, leader: t.spec.Leader, launched: t.launched,
		started: !t.persisted.State.StartedAt.IsZero(), dead: t.over || t.persisted.State.Phase == hook.PhaseDead,
		failed: t.persisted.State.Failed, stuck: stuck,
	}
}

// turn implements [hook.Config.Turn]: the task is signaled to end when no task of a lower rank is ending.
func (t *Task) turn() <-chan struct{} {
	changed := t.alloc.nextChange() // before the look
	for _, other := range t.alloc.Tasks() {
		if ending, _ := other.runner.Ending(); ending && other.rank() < t.rank() {
			return changed
		}
	}
	return nil
}

func (t *Task) rank() int { return rankOf(t.spec.Leader, t.spec.Lifecycle) }

// launch lets the runner begin.
func (t *Task) launch() {
	t.mu.Lock()
	t.launched = true
	t.mu.Unlock()
	t.host.Work.Go(func() {
		if err := t.runner.Run(t.host.Context); err == nil {
			t.mu.Lock()
			t.over = true
			t.mu.Unlock()
		}
		t.alloc.wake()
	})
}

// Start implements hook.Starter. What the driver is about to start is persisted before: an agent that is killed
// before the handle is persisted adopts the task, and does not start a second one.
func (t *Task) Start(ctx context.Context) (hook.Handle, error) {
	h, err := t.start(ctx)
	if err != nil {
		return nil, blame(err)
	}
	return h, nil
}

func (t *Task) start(ctx context.Context) (*handle, error) {
	config, err := t.config()
	if err != nil {
		return nil, forRunner(err)
	}
	if err := t.apply(func(own *state.Task) { own.Starting = config }); err != nil {
		return nil, driver.Recoverable(err, true)
	}
	failpoint.At("agent.start.intended")
	started, err := t.host.Driver.StartTask(ctx, config)
	if err != nil {
		t.notStarted()
		if errors.Is(err, driver.ErrUnavailable) {
			err = forRunner(err)
		}
		return nil, err
	}
	failpoint.At("agent.start.started")
	t.started(ctx, started)
	h := &handle{id: config.ID, driver: t.host.Driver, usage: t.usage}
	t.mu.Lock()
	t.handle = h
	run := t.persisted.Starts
	t.mu.Unlock()
	t.usage.begin(run, time.Now())
	return h, nil
}

// started persists the handle of a start. Until that succeeds, a new agent adopts the task.
func (t *Task) started(ctx context.Context, h *driver.TaskHandle) {
	var attributes map[string]string // for people
	if status, err := t.host.Driver.InspectTask(ctx, h.Config.ID); err == nil {
		attributes = status.Attributes
	} else {
		t.log.Debug("inspect task", "error", err)
	}
	t.update(func(own *state.Task) {
		own.RunID, own.Handle, own.Attributes = h.Config.ID, h, attributes
		own.Ended, own.Starting = false, nil
		own.Starts++
	})
}

// notStarted forgets a start that failed; the next event persists that. Until then no executor is found for it.
func (t *Task) notStarted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.persisted.Starting = nil
}

// newRunID names a start of a task for its driver.
func newRunID(allocID, name string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return allocID + "/" + name + "/" + hex.EncodeToString(b[:])
}

// hostFault is an error of a start for which the host lacked something.
type hostFault struct{ error }

// HostFault implements hook.HostFault.
func (hostFault) HostFault() bool { return true }

// Unwrap returns the error of the start.
func (e hostFault) Unwrap() error { return e.error }

// blame tells starts that failed because the agent has no descriptors, memory or processes, the disk no room
// or the executor was stopped from those that the task is at fault for. The driver says so of its own.
func blame(err error) error {
	if recoverable, _ := driver.IsRecoverable(err); recoverable {
		return hostFault{err}
	}
	for _, lacking := range [...]error{
		driver.ErrSilent, syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO,
	} {
		if errors.Is(err, lacking) {
			return hostFault{err}
		}
	}
	return err
}

// update changes what is persisted of the task for something that has happened. It is on disk before it is shown, if
// the disk takes it: a counter that was shown must not fall because the agent is killed.
func (t *Task) update(change func(*state.Task)) {
	t.saving.Lock()
	defer t.saving.Unlock()
	t.host.Persist(t.changed(change))
	t.show(change)
}

// apply changes what is persisted of the task for something that is about to happen. After an error nothing has
// changed.
func (t *Task) apply(change func(*state.Task)) error {
	t.saving.Lock()
	defer t.saving.Unlock()
	if err := t.host.Apply(t.changed(change)); err != nil {
		return err
	}
	t.show(change)
	return nil
}

// changed returns what to persist.
func (t *Task) changed(change func(*state.Task)) state.Change {
	t.mu.Lock()
	own := t.persisted
	t.mu.Unlock()
	change(&own)
	return state.ChangeTask(t.alloc.ID, t.spec.Name, &own)
}

// show makes a change visible that has been persisted.
func (t *Task) show(change func(*state.Task)) {
	t.mu.Lock()
	change(&t.persisted)
	t.mu.Unlock()
	t.alloc.taskChanged()
}

// appendEvent adds the newest event and drops the oldest beyond the limit.
func appendEvent(events []allocation.Event, e allocation.Event) []allocation.Event {
	return append(slices.Clone(events[max(0, len(events)+1-allocation.MaxEvents):]), e)
}

// TaskChanged implements hook.Observer: what happened is on disk when it returns.
func (t *Task) TaskChanged(s hook.State, e hook.Event) {
	event := allocation.Event{Type: e.Type, Time: e.Time, Message: e.Message}
	if e.Cause != "" {
		event.Details = map[string]string{}
		if e.Type == hook.EventTerminated {
			event.Details = t.endDetails(s.Exit)
		}
		event.Details[allocation.DetailCause] = string(e.Cause)
	}
	t.update(func(own *state.Task) {
		own.State = s
		switch e.Type {
		case hook.EventTerminated, hook.EventDriverFailure, hook.EventHookFailed:
			own.Ends++
		}
		switch e.Cause {
		case hook.CauseOperator:
			own.EndsByOperator++
		case hook.CauseHost:
			own.EndsByHost++
		case hook.CauseTask:
		}
		switch {
		case e.Type == hook.EventTerminated:
			own.Ended = true
		case e.Type == hook.EventRestarting, s.Phase == hook.PhaseDead: // it was destroyed before
			own.Handle, own.Ended = nil, false
		}
		own.Events = appendEvent(own.Events, event)
	})
	t.mu.Lock()
	run := t.persisted.Starts
	if e.Type == hook.EventTerminated {
		t.handle = nil
	}
	t.mu.Unlock()
	if e.Type == hook.EventRecovered {
		t.usage.begin(run, s.StartedAt)
	}
	t.alloc.onTaskEvent(t, event)
}

// endDetails returns the details of the event of an end: its counters from memory, as a disk may hang, and the exit.
func (t *Task) endDetails(exit *hook.Exit) map[string]string {
	final, err := t.driversRecord()
	if err != nil {
		t.log.Debug("read counters of the end", "error", err)
	}
	final = cmp.Or(final, &record.Record{Measurements: t.usage.measurements()})
	details := final.EndCounters()
	if exit != nil && exit.Lost == "" {
		details[allocation.DetailExitCode] = strconv.Itoa(exit.Code)
		details[allocation.DetailSignal] = strconv.Itoa(exit.Signal)
		details[allocation.DetailOOMKilled] = strconv.FormatBool(exit.OOMKilled)
	}
	return details
}

// onDriverEvent takes an event of the driver. The driver reports the end of a task once its host has handled the events
// before it, one after the other: no end waits for the disk, least of all for the events of other tasks.
func (t *Task) onDriverEvent(e *driver.Event) {
	event := allocation.Event{
		Type: allocation.EventDriver, Time: e.Timestamp, Message: e.Message, Details: maps.Clone(e.Annotations),
	}
	event.Redacted = event.Details[driver.AnnotationRedacted]
	delete(event.Details, driver.AnnotationRedacted)
	delete(event.Details, record.BasisAnnotation) // which the API of records has whole
	t.addEvent(event)
	t.host.Work.Go(func() { t.update(func(*state.Task) {}) })
	t.alloc.onTaskEvent(t, event)
}

func (t *Task) addEvent(e allocation.Event) {
	t.mu.Lock()
	t.persisted.Events = appendEvent(t.persisted.Events, e)
	t.mu.Unlock()
	t.alloc.taskChanged()
}

// snapshot returns the task as it is now.
func (t *Task) snapshot() *allocation.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &t.persisted
	return &allocation.Task{
		Name: t.spec.Name, Driver: t.spec.Driver, Lifecycle: t.spec.Lifecycle, Resources: t.spec.Resources,
		Meta: t.spec.Meta, NoLogs: t.spec.Logs != nil && t.spec.Logs.Disabled,
		Cores: coreList(t.alloc.persisted.Cores[t.spec.Name]), State: own.State, Events: own.Events,
		Attributes: own.Attributes, RunID: own.RunID, Outcome: own.Outcome, Starts: own.Starts,
		Ends: own.Ends, EndsByOperator: own.EndsByOperator, EndsByHost: own.EndsByHost,
	}
}

// running returns the handle of the running task.
func (t *Task) running() (*handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handle == nil {
		return nil, fmt.Errorf("task %s: %w", t.spec.Name, hook.ErrNotRunning)
	}
	return t.handle, nil
}

// Restart restarts the running tasks, or the one that is named.
func (a *Alloc) Restart(name string) error {
	return a.eachRunning(name, func(t *Task) error {
		if reason := a.StopReason(); reason != "" {
			return fmt.Errorf("allocation is stopping (%s): %w", reason, hook.ErrNotRunning)
		}
		return t.runner.Restart("requested by a user")
	})
}

// Signal sends a signal by name (SIGHUP) to the running tasks, or to the one that is named.
func (a *Alloc) Signal(ctx context.Context, name, signal string) error {
	if err := driver.CheckSignal(signal); err != nil { // before events of tasks report it
		return err
	}
	return a.eachRunning(name, func(t *Task) error { return t.runner.Signal(ctx, signal) })
}

// eachRunning calls do for the tasks that run, or for the one that is named.
func (a *Alloc) eachRunning(name string, do func(*Task) error) error {
	if name != "" {
		t, err := a.Task(name)
		if err == nil && t.runner == nil { // it has ended
			_, err = t.running()
		}
		if err != nil {
			return err
		}
		return do(t)
	}
	var errs []error
	done := 0
	for _, t := range a.Tasks() {
		if _, err := t.running(); err == nil {
			errs = append(errs, do(t))
			done++
		}
	}
	if done == 0 {
		return fmt.Errorf("allocation %s: %w", a.ID, hook.ErrNotRunning)
	}
	return errors.Join(errs...)
}

// Exec runs a command beside the running task, as long as ctx lives.
func (t *Task) Exec(ctx context.Context, o driver.ExecOptions) (driver.ExecStream, error) {
	h, err := t.running()
	if err != nil {
		return nil, err
	}
	return h.driver.ExecTaskStreaming(ctx, h.id, o)
}

// SetPublish turns the sampling of the task on or off.
func (t *Task) SetPublish(ctx context.Context, on bool) {
	if err := t.stats.SetPublish(ctx, on); err != nil {
		t.log.Error("set publishing", "on", on, "hook", t.stats.Name(), "error", err)
	}
	if !on {
		t.usage.mark(series.GapPublishing)
	}
}

// Name is the task's name in the job file.
func (t *Task) Name() string { return t.spec.Name }

// Figures returns what is known of the task now. notPublishing says why tasks are not sampled; empty if they are.
func (t *Task) Figures(notPublishing string) *figures.Figures { return t.usage.figures(notPublishing) }

// History returns the persisted readings of the task, oldest first.
func (t *Task) History(q series.Query) ([]series.Point, error) { return t.usage.history.Points(q) }
