// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"time"
)

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
