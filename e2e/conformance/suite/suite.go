// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

// Package suite is what every task driver has to do, as cases that drive ours in this process, or any plugin
// executable.
package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/plugin/proto/base"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/proto/hclspec"
)

// Driver is what the cases ask of a task driver, in this process or behind a plugin's wire.
type Driver interface {
	Capabilities(ctx context.Context) (*drivers.DriverCapabilities, error)
	Fingerprint(ctx context.Context) (driver.Stream[*driver.Fingerprint], error)
	StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.TaskHandle, error)
	RecoverTask(ctx context.Context, handle *driver.TaskHandle) error
	WaitTask(ctx context.Context, id string) (*driver.ExitResult, error)
	StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error
	DestroyTask(ctx context.Context, id string, force bool) error
	InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error)
	SignalTask(ctx context.Context, id, signal string) error
	TaskEvents(ctx context.Context) (driver.Stream[*driver.Event], error)
	ExecTask(ctx context.Context, id string, command []string, timeout time.Duration) (*driver.ExecResult, error)
	ExecTaskStreaming(ctx context.Context, id string, options driver.ExecOptions) (driver.ExecStream, error)
	// NomadStats returns a task's stats in Nomad's form.
	NomadStats(ctx context.Context, id string, interval time.Duration) (driver.Stream[*drivers.TaskStats], error)
	ConfigSchema(ctx context.Context) (*hclspec.Spec, error)
	TaskConfigSchema(ctx context.Context) (*hclspec.Spec, error)
	SetConfig(ctx context.Context, msgpack []byte, topology *base.ClientTopology) error
}

// Subject is a driver under test.
type Subject interface {
	// Open makes a driver that knows no tasks: a new process, or a new value.
	Open(ctx context.Context) (Driver, error)
	// Crash ends the driver of the last Open without any warning. Tasks must survive that.
	Crash(ctx context.Context) error
	// Close ends the driver of the last Open in order.
	Close(ctx context.Context) error
}

// Outcome is how a case ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "FAIL"
	Skipped Outcome = "skip"
)

// Result is one row of the table.
type Result struct {
	Case    string
	Outcome Outcome
	// Detail says why, for what did not pass.
	Detail string
	Took   time.Duration
}

// Case is one thing that a driver has to do.
type Case struct {
	Name string
	run  func(ctx context.Context, e *Env) error
}

// Cases returns all cases, in an order in which a broken driver is understood best.
func Cases() []Case {
	var all []Case
	for _, some := range [][]Case{
		describeCases(), lifecycleCases(), refuseCases(), execCases(), statsCases(), eventCases(), recoverCases(), garbageCases(),
	} {
		all = append(all, some...)
	}
	return all
}

// caseTimeout bounds one case: a driver that hangs must not hang the suite.
const caseTimeout = 60 * time.Second

// Run runs cases one after the other and tells report of each. The error is about the suite itself.
func Run(ctx context.Context, subject Subject, cases []Case, report func(Result)) error {
	for _, c := range cases {
		result, err := runCase(ctx, subject, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		report(result)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func runCase(ctx context.Context, subject Subject, c Case) (result Result, err error) {
	began := time.Now()
	result = Result{Case: c.Name, Outcome: Passed}
	// Short, because paths of sockets are limited to 107 bytes.
	dir, err := os.MkdirTemp("", "conf")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // for tasks of other users
		return result, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, caseTimeout, fmt.Errorf("not done after %s", caseTimeout))
	defer cancel()
	e := &Env{subject: subject, dir: dir, marker: markerOf(dir)}
	err = e.open(ctx)
	if err == nil {
		err = errors.Join(c.try(ctx, e), e.end(ctx))
	}
	result.Took = time.Since(began)
	var skip *skipError
	switch {
	case errors.As(err, &skip):
		result.Outcome, result.Detail = Skipped, skip.reason
	case err != nil:
		result.Outcome, result.Detail = Failed, err.Error()
	}
	return result, nil
}

// try runs a case to its end, or to the first error that must meets.
func (c Case) try(ctx context.Context, e *Env) (err error) {
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case caseError:
			err = ended.error
		default:
			panic(ended)
		}
	}()
	return c.run(ctx, e)
}

// caseError is an error that must ends a case with.
type caseError struct{ error }

// must ends the case at an error. Goroutines of a case return their errors instead.
func must(err error) {
	if err != nil {
		panic(caseError{err})
	}
}

// value returns the value of a call that must succeed.
func value[T any](v T, err error) T {
	must(err)
	return v
}

// skipError ends a case that a driver has nothing to do with.
type skipError struct{ reason string }

func (e *skipError) Error() string { return "skipped: " + e.reason }

func skip(format string, args ...any) error { return &skipError{fmt.Sprintf(format, args...)} }
