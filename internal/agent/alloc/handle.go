// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/reader"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

// handle is one start of a task, as the runner sees it.
type handle struct {
	id     string
	driver *Driver
	usage  *usage

	missing sync.Mutex // guards missed
	// missed is what the driver could not recover yet; nil where it knows the task.
	missed *driver.TaskHandle
	// reason is why; it is not changed.
	reason error
}

// Missed returns why the driver could not recover the task at first; nil if it could.
func (h *handle) Missed() error { return h.reason }

var _ hook.StatsOpener = (*handle)(nil)

// resume lets the driver recover a task that it could not before. Whether it knows it then is said by the next call.
func (h *handle) resume(ctx context.Context) error {
	h.missing.Lock()
	defer h.missing.Unlock()
	if h.missed == nil {
		return nil
	}
	err := h.driver.RecoverTask(ctx, h.missed)
	if err != nil && (errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil) {
		return forRunner(err)
	}
	h.missed = nil
	return nil
}

// Wait implements hook.Handle.
func (h *handle) Wait(ctx context.Context) (hook.Exit, error) {
	if err := h.resume(ctx); err != nil {
		return hook.Exit{}, err
	}
	result, err := h.driver.WaitTask(ctx, h.id)
	if err != nil {
		return hook.Exit{}, forRunner(err)
	}
	exit := hook.Exit{
		Code: result.Code, Signal: result.Signal, OOMKilled: result.OOMKilled, Retryable: result.Retryable,
	}
	if result.Err != nil {
		exit.Lost = result.Err.Error()
	}
	status, err := h.driver.InspectTask(ctx, h.id)
	if err == nil {
		exit.At = status.CompletedAt
	}
	return exit, nil
}

// Stop implements hook.Handle.
func (h *handle) Stop(ctx context.Context, signal string, timeout time.Duration) error {
	if err := h.resume(ctx); err != nil {
		return err
	}
	err := h.driver.StopTask(ctx, h.id, timeout, signal)
	if errors.Is(err, driver.ErrTaskNotFound) || errors.Is(err, driver.ErrTaskNotRunning) {
		return nil
	}
	return forRunner(err)
}

// Signal implements hook.Handle.
func (h *handle) Signal(ctx context.Context, signal string) error {
	return forRunner(h.driver.SignalTask(ctx, h.id, signal))
}

// Destroy implements hook.Handle. It retries while the task's executor does not answer: the task must not be left
// behind.
func (h *handle) Destroy(ctx context.Context) error {
	const interval = 100 * time.Millisecond
	for {
		err := h.resume(ctx)
		if err == nil {
			err = h.driver.DestroyTask(ctx, h.id, true)
		}
		switch {
		case err == nil || errors.Is(err, driver.ErrTaskNotFound):
			return nil
		case !errors.Is(err, driver.ErrUnavailable):
			return forRunner(err)
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return forRunner(err)
		}
	}
}

// OpenStats implements hook.StatsOpener.
func (h *handle) OpenStats(ctx context.Context, interval time.Duration) (hook.StatsStream, error) {
	if err := h.resume(ctx); err != nil {
		return nil, err
	}
	stream, err := h.driver.TaskStats(ctx, h.id, interval)
	if err != nil {
		return nil, forRunner(err)
	}
	return h.usage.open(stream), nil
}

// open takes the samples of a stream from now on.
func (u *usage) open(stream driver.StatsStream) *statsStream {
	u.measureFrom(stream.Baseline())
	s := &statsStream{stream: stream}
	u.stream.Store(s)
	if resting, ok := stream.(interface {
		OnQuiet(func(*procstats.Sample) bool)
	}); ok {
		s.longest = reader.RefreshInterval
		resting.OnQuiet(u.again)
	}
	return s
}

// statsStream hands the samples to the hook, and errors in its words.
type statsStream struct {
	stream driver.StatsStream
	// longest is how long the hook gets no sample of a task that does not move: usage gets those itself.
	longest time.Duration
}

// look has the processes of the task read with every sample for a while, if the driver can.
func (s *statsStream) look() {
	if looker, ok := s.stream.(interface{ Look() }); ok {
		looker.Look()
	}
}

// Recv implements hook.StatsStream.
func (s *statsStream) Recv() (*procstats.Sample, error) {
	sample, err := s.stream.Recv()
	return sample, forRunner(err)
}

// Interval implements hook.PacedStream.
func (s *statsStream) Interval() time.Duration { return max(s.longest, s.paced()) }

// paced is the time between two readings now; 0 means as asked for.
func (s *statsStream) paced() time.Duration {
	if paced, ok := s.stream.(interface{ Interval() time.Duration }); ok {
		return paced.Interval()
	}
	return 0
}

// forRunner returns a driver's error as the runner knows it.
func forRunner(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUnavailable):
		return fmt.Errorf("%w: %w", hook.ErrPluginRestarting, err)
	case errors.Is(err, driver.ErrTaskNotFound):
		return driver.Recoverable(err, false)
	case errors.Is(err, driver.ErrTaskNotRunning):
		return fmt.Errorf("%w: %w", hook.ErrNotRunning, err)
	}
	return err
}

// Recover recovers the running tasks of an allocation that an earlier run of the agent began. It returns the handles
// of tasks whose executors do not answer yet: they run on, and are recovered later.
func (a *Alloc) Recover(ctx context.Context, publish bool) (spared []*driver.TaskHandle) {
	for _, t := range a.Tasks() {
		if t.persisted.Starts > 0 && !t.progress().dead { // nothing was read since
			t.usage.mark(series.GapAgent)
		}
		failpoint.At("agent.recover.task")
		h := t.recover(ctx)
		if h != nil && h.missed != nil {
			spared = append(spared, h.missed)
		}
		t.prepare(h, publish)
	}
	return spared
}

// recover returns the handle of a task that an earlier run of the agent started; nil if it does not run any more.
func (t *Task) recover(ctx context.Context) *handle {
	own := &t.persisted
	if own.Handle == nil && own.Starting == nil {
		return nil
	}
	if own.Starting != nil {
		t.adopt(ctx)
	}
	if own.Handle == nil {
		return nil
	}
	h := &handle{id: own.Handle.Config.ID, driver: t.host.Driver, usage: t.usage}
	if err := t.host.Driver.RecoverTask(ctx, own.Handle); err != nil {
		t.recoveryFailed("recover task", err)
		if !errors.Is(err, driver.ErrUnavailable) {
			t.destroy(ctx, h) // it must not run beside its next start
			return nil
		}
		h.missed, h.reason = own.Handle, err
	}
	if own.Ended {
		t.finishEnd(ctx, h)
		return nil
	}
	// The agent may have been killed after it persisted the handle and before the task's start was reported.
	if own.State.Phase != hook.PhaseRunning {
		own.State.Phase, own.State.Exit = hook.PhaseRunning, nil
		if status, err := t.host.Driver.InspectTask(ctx, h.id); err == nil {
			own.State.StartedAt = status.StartedAt
		}
		own.Events = appendEvent(own.Events, allocation.Event{
			Type: hook.EventStarted, Time: own.State.StartedAt, Message: "task started; the agent was killed meanwhile",
		})
	}
	return h
}

func (t *Task) recoveryFailed(what string, err error) {
	t.log.Error(what, "error", err)
	t.host.Counts.Fail("recovery")
}

// adopt finds a task that was started by an agent which was killed before it had persisted the handle.
func (t *Task) adopt(ctx context.Context) {
	config := t.persisted.Starting
	h, err := t.host.Driver.AdoptTask(ctx, config)
	if err != nil {
		t.notStarted()
		if !errors.Is(err, driver.ErrTaskNotFound) {
			t.recoveryFailed("adopt task; it is started again", err)
		}
		return
	}
	t.log.Info("adopted a task that was being started when the agent was killed", "executor", config.ID)
	t.started(ctx, h)
}

// finishEnd finishes the end of a task that was persisted: its record, and its end in the driver.
func (t *Task) finishEnd(ctx context.Context, h *handle) {
	if exit := t.persisted.State.Exit; exit != nil {
		if final, err := t.completeRecord(*exit, t.persisted); err == nil && final != nil {
			final.Cause = string(exit.Cause)
			t.host.Persist(state.ChangeRecord(t.alloc.ID, t.spec.Name, final))
		}
	}
	t.destroy(ctx, h)
}

func (t *Task) destroy(ctx context.Context, h *handle) {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := h.Destroy(ctx); err != nil {
		t.log.Error("destroy exited task", "error", err)
	}
}
