// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"time"
)

// Hook is something that takes part in a task's life. What it does is said by the phases it implements:
// [Prestart], [Poststart], [Exited], [Stop] and [Shutdown]. Hooks are called in the order in which they were given
// to the runner, from one goroutine, in every phase.
type Hook interface {
	// Name names the hook in the log.
	Name() string
}

// Prestart hooks are called before every start of the task. An error fails the start: later hooks are not called,
// the task is not started, and the restart policy decides, as it does for an error of [Starter].
type Prestart interface {
	Hook
	// Prestart has to return soon after ctx is done, which is when the task is stopped or the agent goes down.
	Prestart(ctx context.Context, req *PrestartRequest) error
}

// Poststart hooks are called when the task's main process runs, and once for a recovered task. An error is logged
// and changes nothing for the task.
type Poststart interface {
	Hook
	// Poststart has to return soon after ctx is done; what it starts must not depend on ctx.
	Poststart(ctx context.Context, req *PoststartRequest) error
}

// Exited hooks are called after every end of the task, and again where the agent was killed before the end was dealt
// with. An error is logged.
type Exited interface {
	Hook
	// Exited has to return soon after ctx is done, 10 s after the call.
	Exited(ctx context.Context, req *ExitedRequest) error
}

// Stop hooks are called once, when the task will not be started again, also if it never was. An error is logged.
type Stop interface {
	Hook
	// Stop has to return soon after ctx is done, 10 s after the call.
	Stop(ctx context.Context, req *StopRequest) error
}

// Shutdown hooks are called where the runner leaves the task alone because the agent goes down. The task, if it
// runs, runs on; the hook ends what it has in this process. An error is logged.
type Shutdown interface {
	Hook
	// Shutdown has to return soon after ctx is done, 10 s after the call.
	Shutdown(ctx context.Context) error
}

// PrestartRequest is what a prestart hook gets.
type PrestartRequest struct {
	// Restarts counts the earlier starts of the task: 0 before its first.
	Restarts int
}

// PoststartRequest is what a poststart hook gets.
type PoststartRequest struct {
	// Stats opens the task's stats stream; nil where the driver has none.
	Stats StatsOpener
	// Recovered says that the task was started by an earlier run of the agent.
	Recovered bool
}

// ExitedRequest is what an exited hook gets.
type ExitedRequest struct {
	Exit Exit
}

// StopRequest is what a stop hook gets.
type StopRequest struct {
	// State is the task's state before it is said to be dead.
	State State
}

// Starter starts a task, once per call.
type Starter interface {
	// Start returns when the main process runs. An error means that nothing of the task runs: a start that is cut
	// short by ctx cleans up behind itself. The restart policy applies only where the error says that it is
	// recoverable (see [Recoverable]); after [ErrPluginRestarting] the start is tried again.
	Start(ctx context.Context) (Handle, error)
}

// Handle is a started task. Its methods are called from several goroutines and return soon after ctx is done.
// Where it is a [StatsOpener] too, poststart hooks get it as such.
type Handle interface {
	// Wait blocks until the task has ended. An error means that its end could not be observed; Wait is then called
	// again after a while, unless the error is unrecoverable: the task is then killed and counts as lost.
	Wait(ctx context.Context) (Exit, error)
	// Stop sends the signal, kills the task when it has not ended after timeout, and returns when it is gone. An
	// empty signal is the driver's own choice.
	Stop(ctx context.Context, signal string, timeout time.Duration) error
	// Signal sends a signal by its name, such as SIGHUP.
	Signal(ctx context.Context, signal string) error
	// Destroy frees what the driver still keeps of an ended task.
	Destroy(ctx context.Context) error
}

// Exit is how a task ended.
type Exit struct {
	// Code is the main process's exit code; 128 plus Signal by convention where a signal ended it.
	Code int
	// Signal is the number of the signal that ended the main process, 0 where none did.
	Signal int
	// OOMKilled says that the kernel killed a process of the task for want of memory.
	OOMKilled bool
	// Lost is why the end could not be observed, empty where it was. The other fields then say nothing.
	Lost string
	// At is when the task ended, zero where the driver does not know.
	At time.Time
}

// Successful reports whether the main process is known to have ended by itself with code 0.
func (e Exit) Successful() bool { return e.Code == 0 && e.Signal == 0 && e.Lost == "" }

// String returns a short sentence for the list of events.
func (e Exit) String() string {
	if e.Lost != "" {
		return "lost: " + e.Lost
	}
	text := fmt.Sprintf("exit code %d", e.Code)
	if e.Signal != 0 {
		text += fmt.Sprintf(", signal %d", e.Signal)
	}
	if e.OOMKilled {
		text += ", OOM killed"
	}
	return text
}
