// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/drivers"
)

func refuseCases() []Case {
	return []Case{
		{"no such command", noSuchCommand},
		{"garbage as task config", garbageTask},
		{"the same id twice", sameID},
		{"unknown ids", unknownIDs},
		{"unknown signals", unknownSignals},
		{"destroy twice", destroyTwice},
		{"after the end", afterEnd},
	}
}

func noSuchCommand(ctx context.Context, e *Env) error {
	t := e.command(ctx, "/no/such/command")
	_, err := e.StartTask(ctx, t.TaskConfig)
	if err == nil {
		return errors.New("started")
	}
	if recoverable, _ := driver.IsRecoverable(err); recoverable {
		return fmt.Errorf("%w: is said to be worth another try", err)
	}
	_, err = e.InspectTask(ctx, t.ID)
	return expectError("inspect what was not started", err, driver.ErrTaskNotFound)
}

func garbageTask(ctx context.Context, e *Env) error {
	t := e.shell(ctx, "exit 0")
	for _, garbage := range [][]byte{nil, {0xc1}, []byte("garbage"), {0x81, 0xa7, 'c', 'o', 'm', 'm', 'a', 'n', 'd', 0xdd, 0xff, 0xff, 0xff, 0xff}} {
		bad := *t.TaskConfig
		bad.DriverConfig = garbage
		if _, err := e.StartTask(ctx, &bad); err == nil {
			return fmt.Errorf("started with the config %x", garbage)
		}
	}
	if err := e.start(ctx, t); err != nil {
		return fmt.Errorf("after that: %w", err)
	}
	return e.wantExit(ctx, t, driver.ExitResult{})
}

func sameID(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	if _, err := e.StartTask(ctx, t.TaskConfig); err == nil {
		return errors.New("a second task was started under the id of a running one")
	}
	if len(e.processes()) == 0 {
		return errors.New("the first task is gone")
	}
	return nil
}

func unknownIDs(ctx context.Context, e *Env) error {
	const id = "nobody/knows/this"
	_, waitErr := e.WaitTask(ctx, id)
	_, inspectErr := e.InspectTask(ctx, id)
	_, statsErr := firstStats(ctx, e, id)
	_, execErr := e.ExecTask(ctx, id, []string{"true"}, time.Second)
	var errs []error
	for what, err := range map[string]error{
		"wait": waitErr, "inspect": inspectErr, "stats": statsErr, "exec": execErr,
		"stop":    e.StopTask(ctx, id, time.Second, "SIGTERM"),
		"signal":  e.SignalTask(ctx, id, "SIGTERM"),
		"destroy": e.DestroyTask(ctx, id, true),
	} {
		if (what == "exec" || what == "signal" || what == "stats") && isMissing(err) {
			continue
		}
		errs = append(errs, expectError(what, err, driver.ErrTaskNotFound))
	}
	return errors.Join(errs...)
}

// isMissing reports whether a driver does not do something at all.
func isMissing(err error) bool {
	return errors.Is(err, driver.ErrNotSupported) || errors.Is(err, driver.ErrStatsNotImplemented)
}

// firstStats opens a stats stream and returns its first reading: the error of a stream may come with that only.
func firstStats(ctx context.Context, e *Env, id string) (*drivers.TaskStats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := e.NomadStats(ctx, id, time.Second)
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}

func unknownSignals(ctx context.Context, e *Env) error {
	t := e.run(ctx, "sleep 1000")
	for _, name := range []string{"SIGNONSENSE", "SIGNULL", "-9", "0"} {
		if err := e.SignalTask(ctx, t.ID, name); err == nil {
			return fmt.Errorf("the signal %q was taken", name)
		}
	}
	return expect("state after that", value(e.InspectTask(ctx, t.ID)).State, driver.TaskRunning)
}

func destroyTwice(ctx context.Context, e *Env) error {
	t := e.run(ctx, "exit 0")
	e.wait(ctx, t)
	must(e.DestroyTask(ctx, t.ID, false))
	return expectError("destroy again", e.DestroyTask(ctx, t.ID, false), driver.ErrTaskNotFound)
}

func afterEnd(ctx context.Context, e *Env) error {
	t := e.run(ctx, "exit 0")
	e.wait(ctx, t)
	if err := e.StopTask(ctx, t.ID, time.Second, "SIGTERM"); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if err := e.SignalTask(ctx, t.ID, "SIGTERM"); err == nil {
		return errors.New("a signal was sent to an ended task")
	}
	if _, err := e.ExecTask(ctx, t.ID, []string{"true"}, time.Second); err == nil {
		return errors.New("a command was run in an ended task")
	}
	return nil
}
