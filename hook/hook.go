// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Hook is called at the stages of a task's life that it implements: [Prestart], [Poststart], [Exited], [Stop] and
// [Shutdown]. At every stage hooks are called in the order of [Config], from one goroutine.
type Hook interface {
	// Name identifies the hook in the log.
	Name() string
}

// Prestart hooks are called before every start of the task. An error fails the start: later hooks are not called,
// the task is not started, and the restart policy applies, as it does to an error of [Starter].
type Prestart interface {
	Hook
	// Prestart must return soon after ctx is done, which is when the task is stopped or the agent shuts down.
	Prestart(ctx context.Context, req *PrestartRequest) error
}

// Poststart hooks are called when the task's main process runs, and once for a recovered task. An error is logged
// and does not affect the task.
type Poststart interface {
	Hook
	// Poststart must return soon after ctx is done; what it starts must not depend on ctx.
	Poststart(ctx context.Context, req *PoststartRequest) error
}

// Exited hooks are called after every end of the task, and again if the agent was killed before the restart decision
// was persisted. An error is logged.
type Exited interface {
	Hook
	// Exited must return soon after ctx is done, 10 s after the call.
	Exited(ctx context.Context, req *ExitedRequest) error
}

// Stop hooks are called once, when the task will not be started again, also if it never was. An error is logged.
type Stop interface {
	Hook
	// Stop must return soon after ctx is done, 10 s after the call.
	Stop(ctx context.Context, req *StopRequest) error
}

// Shutdown hooks are called when the agent shuts down and leaves the task running. The hook ends what it has in this
// process. An error is logged.
type Shutdown interface {
	Hook
	// Shutdown must return soon after ctx is done, 10 s after the call.
	Shutdown(ctx context.Context) error
}

// PrestartRequest is the argument of a prestart hook.
type PrestartRequest struct {
	// Restarts counts the earlier starts of the task: 0 before its first.
	Restarts int
}

// PoststartRequest is the argument of a poststart hook.
type PoststartRequest struct {
	// Stats opens the task's stats stream; nil if the driver has none.
	Stats StatsOpener
	// Recovered says that the task was started by an earlier run of the agent.
	Recovered bool
}

// ExitedRequest is the argument of an exited hook.
type ExitedRequest struct {
	Exit Exit
}

// StopRequest is the argument of a stop hook.
type StopRequest struct {
	// State is the task's state before its phase is dead.
	State State
}

// Starter starts a task, once per call.
type Starter interface {
	// Start returns when the main process runs. An error means that nothing of the task runs: a start that is cut
	// short by ctx cleans up after itself. The restart policy applies only if the error says that it is recoverable
	// (see [Recoverable]); after [ErrPluginRestarting] the start is retried.
	Start(ctx context.Context) (Handle, error)
}

// Handle is a started task. Its methods are called from several goroutines and return soon after ctx is done.
// If it implements [StatsOpener], poststart hooks get it as such.
type Handle interface {
	// Wait blocks until the task has ended. An error means that its end could not be observed; Wait is then retried
	// with backoff, unless the error is unrecoverable: the task is then killed and counts as lost.
	Wait(ctx context.Context) (Exit, error)
	// Stop sends the signal, kills the task if it has not ended after timeout, and returns when it has. An empty
	// signal is the driver's default.
	Stop(ctx context.Context, signal string, timeout time.Duration) error
	// Signal sends a signal by its name, such as SIGHUP.
	Signal(ctx context.Context, signal string) error
	// Destroy releases what the driver still holds of an ended task.
	Destroy(ctx context.Context) error
}

// Exit is how a task ended.
type Exit struct {
	// Code is the main process's exit code; 128 plus Signal by convention if a signal ended it.
	Code int
	// Signal is the number of the signal that ended the main process, 0 if none did.
	Signal int
	// OOMKilled says that the kernel killed a process of the task because memory ran out.
	OOMKilled bool
	// Retryable is why another start may end better although the task failed, such as the memory of the machine;
	// empty if it may not. See [Config.Retry].
	Retryable string `json:",omitempty"`
	// Lost is why the end could not be observed, empty if it was. Otherwise the other fields mean nothing.
	Lost string
	// At is when the task ended, zero if the driver does not know.
	At time.Time
	// Cause is on whose account the task ended; empty in the state of earlier builds. The runner sets it.
	Cause Cause `json:",omitempty"`
}

// Cause is on whose account a task ended. Only the task's own ends spend attempts of its restart policy.
type Cause string

const (
	// CauseTask is an end of the task's own: an exit, a crash, a limit of its own that it reached.
	CauseTask Cause = "task"
	// CauseOperator is a stop or a restart that was asked for.
	CauseOperator Cause = "operator"
	// CauseHost is a reboot, an executor that died, memory that others had taken, or something that the agent lacked.
	CauseHost Cause = "host"
)

// cause returns on whose account a task ended that nobody had asked to.
func (e Exit) cause() Cause {
	if e.Lost != "" || e.Retryable != "" {
		return CauseHost
	}
	return CauseTask
}

// Successful reports whether the main process is known to have exited with code 0.
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
	if e.Retryable != "" {
		text += ", " + e.Retryable
	}
	return text
}

var (
	// ErrStatsNotImplemented is returned by a [StatsOpener] or [StatsStream] whose driver has no stats.
	ErrStatsNotImplemented = errors.New("stats not implemented")
	// ErrPluginRestarting is returned while the plugin behind a task is started again. The call is retried, and the
	// log has it at debug level only.
	ErrPluginRestarting = errors.New("plugin is restarting")
	// ErrNotRunning says that there is no running task.
	ErrNotRunning = errors.New("task is not running")
	// ErrNotPublished says that no stats are collected because publishing is off.
	ErrNotPublished = errors.New("publishing is off")
	// ErrStatsOpening says that the stats stream has not sent its first sample yet.
	ErrStatsOpening = errors.New("stats stream is being opened")
	// ErrStatsStalled says that a stats stream was ended because it fell silent.
	ErrStatsStalled = errors.New("stats stream is silent")
	// ErrUpdaterBlocked says that the updater does not return from the last sample.
	ErrUpdaterBlocked = errors.New("stats updater is blocked")
	// ErrStatsAborted says that the driver or the updater ended the goroutine that called it, by runtime.Goexit.
	ErrStatsAborted = errors.New("stats collection was aborted")
)

// Recoverable is implemented by errors that say whether a retry can help. For errors that do not say, stats streams and
// waits are retried and a start is not.
type Recoverable interface {
	error
	Recoverable() bool
}

// HostFault is implemented by errors of a start that say whether the host lacked something, such as descriptors or
// room on the disk: such a start spends no attempt.
type HostFault interface {
	error
	HostFault() bool
}

// recoverable returns what the error says of itself, or otherwise if it says nothing.
func recoverable(err error, otherwise bool) bool {
	if r, ok := errors.AsType[Recoverable](err); ok {
		return r.Recoverable()
	}
	return otherwise
}

// pluginShutDown is how Nomad and its plugins say that a plugin is down. Often nothing but the text arrives.
const pluginShutDown = "plugin is shut down"

// isRestarting reports whether an error is the ordinary restart of a plugin.
func isRestarting(err error) bool {
	return errors.Is(err, ErrPluginRestarting) || err != nil && strings.Contains(err.Error(), pluginShutDown)
}

// Phase is the part of its life that a task is in.
type Phase string

const (
	// PhasePending is before the first start and while the next one is due.
	PhasePending Phase = "pending"
	// PhaseRunning is while the main process runs, and until it is decided what follows its end.
	PhaseRunning Phase = "running"
	// PhaseDead is after the last end, when all stop hooks have been called.
	PhaseDead Phase = "dead"
)

// State is what is known of a task besides its handle. It is a value: with it and a recovered handle a later run of
// the agent continues where an earlier one ended.
type State struct {
	Phase Phase
	// Failed says that the task did not complete and will not be started again; Cause is on whose account then.
	Failed bool
	Cause  Cause `json:",omitempty"`
	// Restarts counts the restarts in the task's life, those requested by a user included.
	Restarts int
	// LastRestart is when the last of them was decided.
	LastRestart time.Time
	// StartedAt is when the task last started, zero before the first start; Started is the same moment.
	StartedAt time.Time
	Started   Instant `json:",omitzero"`
	// FinishedAt is when the task died, zero before; Finished is the same moment.
	FinishedAt time.Time
	Finished   Instant `json:",omitzero"`
	// Exit is the task's last end, nil before the first.
	Exit *Exit
	// RestartAt is when the next start is due, zero before the first and while the task runs.
	RestartAt time.Time
	// Ended says that the restart policy has not been applied to Exit, with which this run of the task has ended.
	Ended bool `json:",omitempty"`
	// Restart is the delay until RestartAt.
	Restart Deadline `json:",omitzero"`
	Window  RestartWindow
	// RestartRequested is why [Runner.Restart] was called, until the task has started again; empty otherwise. A later
	// run of the agent finishes the restart, and the policy is not asked about it.
	RestartRequested string `json:",omitempty"`
	// Signal is the signal of [Runner.Signal] that may not have been sent yet; empty otherwise. A later run of the
	// agent sends it, perhaps once more.
	Signal string `json:",omitempty"`
}

// settle makes instants of earlier boots some of this one: the wall clock is asked about them once.
func (s *State) settle(now Instant, interval time.Duration) {
	const longest = 10 * 365 * 24 * time.Hour
	if s.Restart.IsZero() && !s.RestartAt.IsZero() { // an earlier build
		s.Restart = Deadline{From: Instant{Wall: s.LastRestart}, Delay: s.RestartAt.Sub(s.LastRestart)}
	}
	if s.Failed && s.Cause == "" && s.Exit != nil { // an earlier build
		s.Cause = cmp.Or(s.Exit.Cause, s.Exit.cause())
	}
	s.Restart.From = s.Restart.From.Here(now, s.Restart.Delay)
	s.Window.From = s.Window.From.Here(now, interval)
	s.Finished = s.Finished.Here(now, longest)
}

// EventType is the type of an event. Those that Nomad has too have its names, so that its clients know them.
type EventType string

// The events of a task. The last one is EventCompleted, EventNotRestarting or EventKilled, and the only one whose state
// is dead.
const (
	EventSetup         EventType = "Task Setup"
	EventHookFailed    EventType = "Task hook failed"
	EventDriverFailure EventType = "Driver Failure"
	EventStarted       EventType = "Started"
	EventRecovered     EventType = "Recovered"
	EventTerminated    EventType = "Terminated"
	EventRestartSignal EventType = "Restart Signaled"
	EventRestarting    EventType = "Restarting"
	EventSignaling     EventType = "Signaling"
	EventSignaled      EventType = "Signaled"
	EventKilling       EventType = "Killing"
	EventKillFailed    EventType = "Kill Failed"
	EventKilled        EventType = "Killed"
	EventNotRestarting EventType = "Not Restarting"
	EventCompleted     EventType = "Completed"
)

// Event is one line in a task's history.
type Event struct {
	Type    EventType
	Time    time.Time
	Message string
	// Cause is on whose account the task has ended, or was not started; empty of other events.
	Cause Cause
}

// Observer receives every event with the state that it led to: for a list of events, a state store, a live view.
type Observer interface {
	// TaskChanged is called for one event after the other, in order. The runner waits for it: what is persisted when it
	// returns is what a later run restores. It must not call Signal or Restart of the same runner.
	TaskChanged(state State, event Event)
}

// emit changes the state and reports the event that changed it.
func (r *Runner) emit(kind EventType, message string, change func(*State)) {
	r.report(Event{Type: kind, Message: message}, change)
}

// failed reports a start that has failed, unless it was cut short.
func (r *Runner) failed(life context.Context, kind EventType, err error) {
	if life.Err() != nil {
		return
	}
	r.report(Event{Type: kind, Message: err.Error(), Cause: ending{startErr: err}.cause()}, nil)
}

func (r *Runner) report(event Event, change func(*State)) {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	event.Time = time.Now()
	r.mu.Lock()
	if change != nil {
		change(&r.state)
	}
	state := r.state
	r.mu.Unlock()
	if r.config.Observer != nil {
		r.config.Observer.TaskChanged(state, event)
	}
}

// State returns the task's state now.
func (r *Runner) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}
