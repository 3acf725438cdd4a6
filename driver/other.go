// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// errNoExecutor says why there are no tasks here: an executor needs Linux.
func errNoExecutor(operation string) error {
	return fmt.Errorf("%s on %s: %w", operation, runtime.GOOS, errors.ErrUnsupported)
}

// task never exists here.
type task struct {
	config *TaskConfig
	state  *driverState
}

func (t *task) running() bool { return false }
func (t *task) detach() error { return nil }

func (t *task) commands() *record.Commands { return nil }

func (t *task) sample(context.Context, time.Duration, bool) (*procstats.Sample, error) {
	return nil, errNoExecutor("sample")
}

// LookupUser finds nobody where no task is started.
func LookupUser(string) (uid, gid uint32, err error) { return 0, 0, errNoExecutor("look up user") }

// CheckUser has nothing to refuse where no task is started.
func (d *Tacho) CheckUser(string) error { return nil }

func (d *Tacho) describeMachine(*Fingerprint) error { return errNoExecutor("run tasks") }

// StartTask is not supported here.
func (d *Tacho) StartTask(context.Context, *TaskConfig) (*TaskHandle, error) {
	return nil, Recoverable(errNoExecutor("start task"), false)
}

// StartedTasks has nothing to adopt here.
func (d *Tacho) StartedTasks() ([]*TaskConfig, error) { return nil, nil }

// AdoptTask has nothing to adopt here.
func (d *Tacho) AdoptTask(context.Context, *TaskConfig) (*TaskHandle, error) {
	return nil, errNoExecutor("adopt task")
}

func (d *Tacho) endUnconfirmed(context.Context, time.Time, bool) {}

// RecoverTask is not supported here.
func (d *Tacho) RecoverTask(context.Context, *TaskHandle) error { return errNoExecutor("recover task") }

// WaitTask is not supported here.
func (d *Tacho) WaitTask(context.Context, string) (*ExitResult, error) { return nil, ErrTaskNotFound }

// StopTask is not supported here.
func (d *Tacho) StopTask(context.Context, string, time.Duration, string) error {
	return ErrTaskNotFound
}

// DestroyTask is not supported here.
func (d *Tacho) DestroyTask(context.Context, string, bool) error { return ErrTaskNotFound }

// InspectTask is not supported here.
func (d *Tacho) InspectTask(context.Context, string) (*TaskStatus, error) {
	return nil, ErrTaskNotFound
}

// SignalTask is not supported here.
func (d *Tacho) SignalTask(context.Context, string, string) error { return ErrTaskNotFound }

// TaskStats returns [ErrTaskNotFound].
func (d *Tacho) TaskStats(context.Context, string, time.Duration) (StatsStream, error) {
	return nil, ErrTaskNotFound
}

// ExecTask is not supported here.
func (d *Tacho) ExecTask(context.Context, string, []string, time.Duration) (*ExecResult, error) {
	return nil, ErrTaskNotFound
}

// ExecTaskStreaming is not supported here.
func (d *Tacho) ExecTaskStreaming(context.Context, string, ExecOptions) (ExecStream, error) {
	return nil, ErrTaskNotFound
}

// FinalRecord returns [ErrTaskNotFound]: there are no tasks here.
func (d *Tacho) FinalRecord(string) (*record.Record, error) { return nil, ErrTaskNotFound }

// Commands returns [ErrTaskNotFound].
func (d *Tacho) Commands(string) (*record.Commands, error) { return nil, ErrTaskNotFound }

// KillOrphans finds none: there are no executors here.
func (d *Tacho) KillOrphans(context.Context, ...*TaskHandle) ([]string, error) { return nil, nil }

// signalNumber returns the signal of a full name, 0 where there is none. Only the signals that every system has are
// known here.
func signalNumber(name string) syscall.Signal {
	switch name {
	case "SIGHUP":
		return syscall.SIGHUP
	case "SIGINT":
		return syscall.SIGINT
	case "SIGQUIT":
		return syscall.SIGQUIT
	case "SIGKILL":
		return syscall.SIGKILL
	case "SIGTERM":
		return syscall.SIGTERM
	}
	return 0
}
