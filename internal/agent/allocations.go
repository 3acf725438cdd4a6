// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/series"
)

// userStopped is why an allocation ends that a user has stopped.
const userStopped = "stopped by a user"

// list returns all allocations, in no order.
func (a *Agent) list() []*alloc.Alloc {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.allocs))
}

// findByID returns an allocation by its full ID, also one that is only watched; nil if it is unknown.
func (a *Agent) findByID(id string) *alloc.Alloc {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.watched[id]; w != nil {
		return w.Alloc
	}
	return a.allocs[id]
}

// find returns an allocation by its full ID. The error wraps allocation.ErrWatched if it is only watched.
func (a *Agent) find(id string) (*alloc.Alloc, error) {
	l, err := a.findShown(id)
	if err == nil && l.Watched() {
		return nil, fmt.Errorf("allocation %s: %w", allocation.ShortID(id), allocation.ErrWatched)
	}
	return l, err
}

// findShown returns an allocation by its full ID, also one that is only watched.
func (a *Agent) findShown(id string) (*alloc.Alloc, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	if l := a.findByID(id); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("allocation %q: %w", id, allocation.ErrNotFound)
}

// onTask returns what a task of an allocation returns. name may be empty if there is only one.
func onTask[T any](a *Agent, allocID, name string, do func(*alloc.Task) (T, error)) (result T, err error) {
	l, err := a.findShown(allocID)
	if err != nil {
		return result, err
	}
	t, err := l.Task(name)
	if err != nil {
		return result, err
	}
	return do(t)
}

// RestartAlloc restarts the running tasks of an allocation, or the one that is named.
func (a *Agent) RestartAlloc(id, task string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	return l.Restart(task)
}

// SignalAlloc sends a signal by name (SIGHUP) to the running tasks of an allocation, or to the one that is named.
func (a *Agent) SignalAlloc(ctx context.Context, id, task, signal string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	return l.Signal(ctx, task, signal)
}

// ExecTask runs a command beside a running task, as long as ctx lives. task may be empty if there is only one.
func (a *Agent) ExecTask(ctx context.Context, id, task string, o driver.ExecOptions) (driver.ExecStream, error) {
	if _, err := a.find(id); err != nil {
		return nil, err
	}
	return onTask(a, id, task, func(t *alloc.Task) (driver.ExecStream, error) { return t.Exec(ctx, o) })
}

// History returns the persisted readings of a task, oldest first. task may be empty if there is only one.
func (a *Agent) History(id, task string, q series.Query) ([]series.Point, error) {
	return onTask(a, id, task, func(t *alloc.Task) ([]series.Point, error) { return t.History(q) })
}

// Record returns the final record of a task's last ended start. The error wraps allocation.ErrNotFound if no start has
// ended.
func (a *Agent) Record(id, task string) (*record.Record, error) {
	return onTask(a, id, task, (*alloc.Task).Record)
}

// Commands returns what the ended processes of a task used: so far if it runs, and otherwise those of its last ended
// start. The error wraps allocation.ErrNotFound if that is not counted.
func (a *Agent) Commands(id, task string) (*record.Commands, error) {
	return onTask(a, id, task, (*alloc.Task).Commands)
}
