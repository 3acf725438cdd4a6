// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
)

// The texts of the first two are part of the hosts' contract: over their wire only the text arrives.
var (
	// ErrTaskNotFound is returned for the id of a task that the driver does not know.
	ErrTaskNotFound = errors.New("task not found for given id")
	// ErrStatsNotImplemented is returned by drivers that have no stats.
	ErrStatsNotImplemented = errors.New("stats not implemented for driver")
	// ErrTaskRunning is returned where a task has to have ended first.
	ErrTaskRunning = errors.New("task is running")
	// ErrTaskNotRunning is returned where a task must not have ended.
	ErrTaskNotRunning = errors.New("task is not running")
	// ErrTaskExists is returned by StartTask for the id of a task that is known already.
	ErrTaskExists = errors.New("a task with this id was started already")
	// ErrCommandNotFound and ErrNotExecutable are of commands that run beside a task; shells exit with 127 and 126.
	ErrCommandNotFound = errors.New("command not found")
	ErrNotExecutable   = errors.New("command cannot be executed")
	// ErrUnavailable is returned while the process behind a driver is gone, or a task's executor cannot be reached;
	// tasks may be alive.
	ErrUnavailable = errors.New("driver is not available")
	// ErrSilent is returned while the executor of a task runs and does not answer.
	ErrSilent = errors.New("the task's executor does not answer")
	// ErrNotSupported is returned for what a driver does not do.
	ErrNotSupported = errors.New("not supported by this driver")
	// ErrDisabled is returned by StartTask if the operator has disabled the driver.
	ErrDisabled = errors.New(Name + " is disabled")
	// ErrInvalid is what errors are where the caller asks for something that cannot be meant: a signal without a name,
	// a configuration that does not fit its schema.
	ErrInvalid = errors.New("invalid request")
)

// invalidError is ErrInvalid without its text: most of them are about a line of a configuration or job file, which is
// no request, and say what is invalid themselves.
type invalidError struct{ error }

func (invalidError) Is(target error) bool { return target == ErrInvalid }
func (e invalidError) Unwrap() error      { return e.error }

func invalid(format string, args ...any) error { return invalidError{fmt.Errorf(format, args...)} }

// Recoverable marks an error of StartTask: with recoverable the host may try again, without it must not.
func Recoverable(err error, recoverable bool) error {
	if err == nil {
		return nil
	}
	return &recoverableError{err: err, recoverable: recoverable}
}

// IsRecoverable reports what an error says of itself; known is false where it says nothing.
func IsRecoverable(err error) (recoverable, known bool) {
	if marked, ok := errors.AsType[interface {
		error
		Recoverable() bool
	}](err); ok {
		return marked.Recoverable(), true
	}
	return false, false
}

type recoverableError struct {
	err         error
	recoverable bool
}

func (e *recoverableError) Error() string     { return e.err.Error() }
func (e *recoverableError) Unwrap() error     { return e.err }
func (e *recoverableError) Recoverable() bool { return e.recoverable }
