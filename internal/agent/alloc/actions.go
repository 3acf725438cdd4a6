// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"context"
	"errors"
	"fmt"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
)

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
