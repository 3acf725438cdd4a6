// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/procstats"
)

// WaitTask returns when the task has ended, to any number of callers and also afterwards. A host that listens to
// events is told of the end when it has those of the task: what comes later it drops.
func (d *Tacho) WaitTask(ctx context.Context, id string) (*ExitResult, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	d.confirm(t)
	failpoint.At("driver.wait")
	select {
	case <-t.announced:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-d.ctx.Done():
		return nil, errClosedWait()
	}
	if t.running() {
		return nil, errClosedWait()
	}
	exit := *t.exit
	return &exit, nil
}

func errClosedWait() error { return fmt.Errorf("wait: driver is closed: %w", ErrUnavailable) }

// StopTask sends a signal (a name such as SIGTERM; SIGINT if empty), waits up to timeout, kills what is left, and
// returns when nothing of the task is left.
func (d *Tacho) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	number := defaultStopSignal
	if signal != "" {
		if number, err = parseSignal(signal); err != nil {
			return err
		}
	}
	failpoint.At("driver.stop")
	return t.stop(ctx, number, timeout)
}

// DestroyTask forgets a task. A running one is [ErrTaskRunning], or killed with force. With force it ends a task
// that this driver does not know as well, if its executor is there.
func (d *Tacho) DestroyTask(ctx context.Context, id string, force bool) error {
	t, err := d.settled(ctx, id)
	if force && errors.Is(err, ErrTaskNotFound) {
		return d.endUnknown(ctx, id)
	}
	if err != nil {
		return err
	}
	t.destroying.Lock()
	defer t.destroying.Unlock()
	if _, err := d.find(id); err != nil {
		return err
	}
	if t.running() {
		if !force {
			return fmt.Errorf("destroy task %s: %w; stop it first, or use force", t.config.Name, ErrTaskRunning)
		}
		kill, cancel := context.WithTimeout(ctx, 2*killTimeout+shutdownTimeout) // which is time for a silent executor too
		defer cancel()
		if err := t.stop(kill, syscall.SIGKILL, 0); err != nil {
			return err
		}
	}
	if d.hosts != nil {
		t.markDestroyed()
	}
	failpoint.At("driver.destroy")
	if err := t.release(ctx); err != nil {
		// The task is gone; what is left are an executor without one, and its directory.
		t.log.Error("release executor", "error", err)
	}
	d.mu.Lock()
	delete(d.tasks, id)
	d.mu.Unlock()
	return nil
}

// InspectTask returns what is known of a task.
func (d *Tacho) InspectTask(_ context.Context, id string) (*TaskStatus, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	s := &TaskStatus{
		ID: t.config.ID, Name: t.config.Name, State: TaskRunning,
		StartedAt: t.state.StartedAt, Attributes: maps.Clone(t.state.Attributes),
	}
	if !t.running() {
		exit := *t.exit
		s.State, s.CompletedAt, s.Exit = TaskExited, t.completedAt, &exit
	}
	return s, nil
}

// SignalTask sends a signal by name to the task's main process.
func (d *Tacho) SignalTask(ctx context.Context, id, signal string) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	number, err := parseSignal(signal)
	if err != nil {
		return err
	}
	err = ErrTaskNotRunning
	if t.running() {
		if err = t.answers(ctx); err == nil {
			err = t.client.Signal(ctx, number, false)
		}
	}
	if status.Code(err) == codes.NotFound || errors.Is(err, client.ErrLost) {
		err = ErrTaskNotRunning
	}
	if err != nil {
		return fmt.Errorf("signal task %s: %w", t.config.Name, err)
	}
	return nil
}

// FinalRecord returns the final record of an ended task that was not destroyed yet. That of a task whose executor was
// lost has what its cgroup counted; it is nil if the task had none.
func (d *Tacho) FinalRecord(id string) (*record.Record, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	if t.running() {
		return nil, ErrTaskRunning
	}
	return t.final, nil
}

// Commands returns what the ended processes of a task used, so far if it runs; nil if they are not counted.
func (d *Tacho) Commands(id string) (*record.Commands, error) {
	t, err := d.find(id)
	if err == nil {
		return t.commands(), nil
	}
	if c := d.loop.CommandsSoFar(id, time.Time{}); c != nil { // of a cgroup that is watched
		return c, nil
	}
	return nil, err
}

// commands is what the ended processes of a task used, or why they are not counted: so far if it runs; nil if its
// record is lost.
func (t *task) commands() *record.Commands {
	if t.running() {
		if c := t.loop.CommandsSoFar(t.config.ID, t.state.StartedAt); c != nil {
			return c
		}
		return &record.Commands{Rows: []procstats.Command{}, Reason: t.whyUncounted()}
	}
	if t.final == nil {
		return nil
	}
	return t.final.Commands
}
