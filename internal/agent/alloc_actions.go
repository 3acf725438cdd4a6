// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/series"
)

// find returns an allocation by its full id.
func (a *Agent) find(id string) (*alloc, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.allocs[id]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("allocation %q: %w", id, allocation.ErrNotFound)
}

// findTask returns a task of an allocation by their full names.
func (a *Agent) findTask(allocID, name string) (*task, error) {
	l, err := a.find(allocID)
	if err != nil {
		return nil, err
	}
	return l.task(name)
}

// StopAlloc stops an allocation for good, by its full id.
func (a *Agent) StopAlloc(id string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	l.stop(userStopped)
	return nil
}

// RestartAlloc restarts the running tasks of an allocation, or the one that is named.
func (a *Agent) RestartAlloc(id, name string) error {
	return a.eachRunning(id, name, func(t *task) error {
		if reason := t.alloc.stopReason(); reason != "" {
			return fmt.Errorf("allocation is stopping (%s): %w", reason, hook.ErrNotRunning)
		}
		return t.runner.Restart("requested by a user")
	})
}

// SignalAlloc sends a signal by name (SIGHUP) to the running tasks of an allocation, or to the one that is named.
func (a *Agent) SignalAlloc(ctx context.Context, id, name, signal string) error {
	if _, err := a.find(id); err != nil {
		return err
	}
	// Before events of tasks report it.
	if err := driver.CheckSignal(signal); err != nil {
		return err
	}
	return a.eachRunning(id, name, func(t *task) error { return t.runner.Signal(ctx, signal) })
}

// eachRunning does something to the tasks of an allocation that run, or to the one that is named.
func (a *Agent) eachRunning(id, name string, do func(*task) error) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	if name != "" {
		t, err := l.task(name)
		if err != nil {
			return err
		}
		return do(t)
	}
	var errs []error
	done := 0
	for _, t := range l.tasks {
		if _, err := t.running(); err == nil {
			errs = append(errs, do(t))
			done++
		}
	}
	if done == 0 {
		return fmt.Errorf("allocation %s: %w", id, hook.ErrNotRunning)
	}
	return errors.Join(errs...)
}

// ExecTask runs a command beside a running task, as long as ctx lives. name may be empty where there is only one.
func (a *Agent) ExecTask(ctx context.Context, id, name string, o driver.ExecOptions) (driver.ExecStream, error) {
	t, err := a.findTask(id, name)
	if err != nil {
		return nil, err
	}
	h, err := t.running()
	if err != nil {
		return nil, err
	}
	return h.driver.ExecTaskStreaming(ctx, h.id, o)
}

// publish turns publishing on or off for all tasks. It waits for the tasks together: one whose driver does not answer
// holds up no other.
func (a *Agent) publish(on bool) {
	ctx, cancel := context.WithTimeout(a.ctx, callTimeout)
	defer cancel()
	var switching sync.WaitGroup
	for _, l := range a.list() {
		for _, t := range l.tasks {
			switching.Go(func() { t.publish(ctx, on) })
		}
	}
	switching.Wait()
	a.logPublishing()
}

// publish turns publishing of the task on or off.
func (t *task) publish(ctx context.Context, on bool) {
	if err := t.stats.SetPublish(ctx, on); err != nil {
		t.log.Error("set publishing", "on", on, "hook", t.stats.Name(), "error", err)
	}
	if !on {
		t.usage.mark(series.GapPublishing)
	}
}

// logPublishing logs whether stats are collected and, if not, how to turn them on.
func (a *Agent) logPublishing() {
	if !a.current().Telemetry.PublishAllocationMetrics {
		a.log.Info(notPublishing)
		return
	}
	a.log.Info("publishing is on")
}
