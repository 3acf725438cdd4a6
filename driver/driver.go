// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is the task driver: it starts tasks through executors, finds them again, waits for them, stops
// and signals them, runs commands beside them, and tells what they use and what happens to them.
//
// The types of the contract ([TaskConfig], [TaskHandle], [ExitResult] and so on) are those of any task driver;
// [Tacho] is our own. The agent uses it in its own process; package plugin serves it to other hosts.
//
// What a host asks for and what happens here:
//
//	StartTask    one executor process a task, in its own session, never in the task's cgroup
//	RecoverTask  the executor is found by (pid, start time, boot) and reached by its socket
//	TaskStats    the driver's loop reads the task's cgroup; rates are over the time since the reading before
//	lost         the holder of the executor's pidfd kills the task's cgroup; the exit says executor_lost
package driver

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// Name is what a job file says: driver = "tacho".
const Name = "tacho"

// Stream is what a driver sends bit by bit. It lives as long as the context it was opened with.
type Stream[T any] interface {
	// Recv blocks until there is something. The end of the stream is io.EOF. It is not called concurrently.
	Recv() (T, error)
}

// StatsStream sends the samples of one task. They do not change.
type StatsStream interface {
	Stream[*procstats.Sample]
	// Baseline returns a sample that was taken not long before the first one, for its rates; nil if there is none.
	Baseline() *procstats.Sample
}

// ExecStream is a command beside a task. Sending and receiving may go on at the same time.
type ExecStream interface {
	// Recv returns what the command wrote, and at last its exit; io.EOF after that.
	Recv() (ExecOutput, error)
	// Write sends to the command's standard input, CloseWrite ends it; once more does nothing.
	Write(p []byte) (n int, err error)
	CloseWrite() error
	// Resize tells the command's terminal the size of the caller's.
	Resize(size TerminalSize) error
}

// ExecOptions say which command and how.
type ExecOptions struct {
	Command []string
	// TTY gives the command a terminal, so that all it writes comes as Stdout.
	TTY bool
}

// ExecOutput is a piece of what a command wrote, or its end.
type ExecOutput struct {
	Stdout, Stderr []byte
	// Exit is set once, with the last output.
	Exit *ExitResult
}

// TerminalSize is a terminal's size in characters.
type TerminalSize struct {
	Rows, Columns int
}

// ExecResult is the outcome of ExecTask. Output is both streams of the command, as they arrived: hosts show one text.
type ExecResult struct {
	Output []byte
	Exit   ExitResult
}

// Health says whether a driver can run tasks.
type Health int32

// The hosts' numbers.
const (
	// Undetected drivers are not there at all.
	Undetected Health = 0
	Unhealthy  Health = 1
	Healthy    Health = 2
)

// Fingerprint is a driver's state on its node.
type Fingerprint struct {
	// Attributes can be used in constraints of jobs. Values are strings and bools.
	Attributes map[string]any
	Health     Health
	// Description says why, in a sentence.
	Description string
}

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

// Event is something worth telling a user about a task.
type Event struct {
	TaskID, AllocID, TaskName string
	Timestamp                 time.Time
	// Message is one sentence.
	Message string
	// Annotations are the details, by name.
	Annotations map[string]string
}

// AnnotationRedacted is the annotation with the message of an event for readers who must not see command lines and
// paths.
const AnnotationRedacted = "message_redacted"

// endMessage says how a task ended. Hosts that know no retryable ends read it here.
func endMessage(r *record.Record) string {
	if r.Diagnosis.Retryable {
		return r.Sentence() + "; not the task's fault: another start may end better"
	}
	return r.Sentence()
}

// recordAnnotations are the record's main numbers by name, for programs that read events.
func recordAnnotations(r *record.Record) map[string]string {
	a := r.EndCounters()
	a[AnnotationRedacted], a[record.BasisAnnotation] = endMessage(r.Redacted()), r.AdviceBasis()
	a["verdict"], a["outcome"] = string(r.Diagnosis.Verdict), string(r.Diagnosis.Outcome)
	for name, h := range r.Headline {
		if h.Value != nil {
			a[name] = strconv.FormatFloat(*h.Value, 'f', -1, 64)
			a[name+".guarantee"] = string(h.Guarantee)
		}
	}
	if kills := r.Diagnosis.OOM.Kills; kills != nil {
		a["oom.kills"] = strconv.FormatInt(*kills, 10)
	}
	if scope := r.Diagnosis.OOM.Scope; scope != "" {
		a["oom.scope"] = string(scope)
	}
	if victim := r.Diagnosis.OOM.Victim; victim != nil {
		a["oom.victim"] = fmt.Sprintf("%d (%s)", victim.PID, victim.Command)
	}
	if r.Diagnosis.Stall != "" {
		a["stall"] = r.Diagnosis.StallText()
	}
	if reason := r.Diagnosis.RetryReason(); reason != "" {
		a["retryable"] = reason
	}
	if r.Diagnosis.Operator != "" {
		a["operator"] = r.Diagnosis.Operator
	}
	return a
}
