// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"errors"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/series"
)

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
