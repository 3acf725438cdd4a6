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
