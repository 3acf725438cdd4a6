// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	defaultKillTimeout = 5 * time.Second
	// teardownTimeout bounds what is done for a task that has ended or is left alone.
	teardownTimeout = 10 * time.Second
)

// Config is what a runner needs to know of its task.
type Config struct {
	// Starter starts the task.
	Starter Starter
	// Hooks are called in this order in every phase.
	Hooks []Hook
	// Restart decides over the task's ends. The zero policy never restarts.
	Restart RestartPolicy
	// KillSignal is sent to stop the task, by name; empty is the driver's own choice.
	KillSignal string
	// KillTimeout is the time between KillSignal and the kill; 0 means 5 s.
	KillTimeout time.Duration
	// Observer is told of every event; nil is none.
	Observer Observer
	// Logger takes errors of hooks and of the driver; nil is none.
	Logger Logger

	// State is the state of a task that an earlier run of the agent left behind: the one the observer got last.
	State State
	// Recovered is the handle of such a task if it runs: the runner then enters at poststart. Without it a State
	// that says running means that the task is lost.
	Recovered Handle
}

// Runner runs one task from its first start to its last end. Its methods may be called from any goroutine.
type Runner struct {
	config Config
	log    Logger
	// stopped is done after Stop; its cause is the reason.
	stopped context.Context
	stop    context.CancelCauseFunc
	// restart holds at most one request to restart, with its reason.
	restart chan string
	// reporting keeps the observer's calls in order.
	reporting sync.Mutex

	mu     sync.Mutex // guards following
	state  State
	handle Handle // nil while the task is not running
}

// New returns a runner that has not begun: nothing happens before Run.
func New(config Config) *Runner {
	config.KillTimeout = cmp.Or(config.KillTimeout, defaultKillTimeout)
	config.State.Phase = cmp.Or(config.State.Phase, PhasePending)
	r := &Runner{config: config, log: loggerOr(config.Logger), state: config.State, restart: make(chan string, 1)}
	r.stopped, r.stop = context.WithCancelCause(context.Background())
	return r
}

// Run runs the task and returns nil when it is dead. When ctx is done it leaves the task alone, running or not, calls
// the shutdown hooks and returns the cause of ctx. It may be called once.
func (r *Runner) Run(ctx context.Context) error {
	if r.State().Phase == PhaseDead {
		return nil
	}
	// life is done when the task must not be started any more, for either reason.
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()

	end, ended := r.enter(ctx, life)
	for ended {
		if v := r.settle(life, end); v.last != "" {
			r.die(ctx, v)
			return nil
		}
		end, ended = r.once(ctx, life)
	}
	r.shutdown(ctx)
	return context.Cause(ctx)
}

// Stop ends the task for good: a running one by the kill signal, a delay or a start at once. It returns without
// waiting; Run returns when the task is dead. Later calls change nothing.
func (r *Runner) Stop(reason string) { r.stop(errors.New(reason)) }

// Restart stops the running task and starts it again at once, or ends the delay before a restart. It takes no attempt
// from the restart policy and returns without waiting. A start under way is restart enough.
func (r *Runner) Restart(reason string) error {
	if r.State().Phase == PhaseDead || r.stopped.Err() != nil {
		return fmt.Errorf("restart: %w", ErrNotRunning)
	}
	select {
	case r.restart <- reason:
	default: // one is waiting already
	}
	return nil
}

// Signal sends a signal to the running task, by its name. Without one the error is [ErrNotRunning].
func (r *Runner) Signal(ctx context.Context, signal string) error {
	r.mu.Lock()
	handle := r.handle
	r.mu.Unlock()
	if handle == nil {
		return fmt.Errorf("signal %s: %w", signal, ErrNotRunning)
	}
	r.emit(EventSignaling, "sending "+signal, nil)
	if err := handle.Signal(ctx, signal); err != nil {
		return fmt.Errorf("signal %s: %w", signal, err)
	}
	return nil
}

// enter is the first round: of a new task, of one that runs, or of one that was between two starts.
func (r *Runner) enter(ctx, life context.Context) (end ending, ended bool) {
	state := r.State()
	switch {
	case r.config.Recovered != nil:
		r.emit(EventRecovered, "task was running and is watched again", func(s *State) { s.Phase = PhaseRunning })
		return r.attend(ctx, life, r.config.Recovered, true)
	case state.Phase == PhaseRunning:
		end.exit = Exit{Lost: "it was running and could not be recovered"}
		r.terminated(ctx, end.exit)
		return end, true
	case state.Exit != nil && state.RestartAt.IsZero():
		// The end was seen and nothing was decided: a task that has completed must not run again.
		r.exited(ctx, &ExitedRequest{Exit: *state.Exit})
		return ending{exit: *state.Exit}, true
	case !state.RestartAt.IsZero():
		// The clock may have been set back meanwhile: no wait is longer than the policy's longest.
		r.pause(life, min(time.Until(state.RestartAt), r.config.Restart.longest()))
	}
	return r.once(ctx, life)
}

// once is one round: a start and, if it succeeds, the task's run to its end. ended is false where ctx was done first.
func (r *Runner) once(ctx, life context.Context) (end ending, ended bool) {
	handle, err := r.start(life)
	if err != nil {
		return ending{startErr: err}, ctx.Err() == nil
	}
	return r.attend(ctx, life, handle, false)
}

// start calls the prestart hooks and the starter.
func (r *Runner) start(life context.Context) (Handle, error) {
	// life follows a stop with a delay: context.AfterFunc has a goroutine of its own.
	if err := cmp.Or(life.Err(), r.stopped.Err()); err != nil {
		return nil, err
	}
	r.emit(EventSetup, "preparing the task", nil)
	if err := r.prestart(life); err != nil {
		if life.Err() == nil {
			r.emit(EventHookFailed, err.Error(), nil)
		}
		return nil, err
	}
	handle, err := r.launch(life)
	if err != nil {
		if life.Err() == nil {
			r.emit(EventDriverFailure, err.Error(), nil)
		}
		return nil, err
	}
	select {
	case <-r.restart: // asked for before the task ran: this start is it
	default:
	}
	r.emit(EventStarted, "task started", func(s *State) {
		s.Phase, s.StartedAt, s.RestartAt = PhaseRunning, time.Now(), time.Time{}
		if s.Window.Start.IsZero() {
			s.Window.Start = s.StartedAt
		}
	})
	return handle, nil
}

// launch starts the task, again and again while the plugin that should do it is restarting.
func (r *Runner) launch(life context.Context) (Handle, error) {
	for retry := (backoff{}); ; {
		handle, err := r.config.Starter.Start(life)
		if err == nil {
			return handle, nil
		}
		if !isRestarting(err) {
			return nil, fmt.Errorf("start: %w", err)
		}
		r.log.Debug("start is tried again", "error", err)
		if !sleep(life, retry.next()) {
			return nil, fmt.Errorf("start: %w", life.Err())
		}
	}
}

// attend follows a task that runs to its end. ended is false where ctx was done first and the task runs on.
func (r *Runner) attend(ctx, life context.Context, handle Handle, recovered bool) (end ending, ended bool) {
	r.setHandle(handle)
	stats, _ := handle.(StatsOpener)
	r.poststart(life, &PoststartRequest{Stats: stats, Recovered: recovered})
	end, ended = r.watch(ctx, handle)
	r.setHandle(nil)
	if !ended {
		return end, false
	}
	cleanup, cancel := teardown(ctx)
	defer cancel()
	if end.exit.Lost != "" {
		// Unseen is not ended: a second task must not be started beside it.
		if err := handle.Stop(cleanup, sigkill, 0); err != nil {
			r.log.Debug("lost task was not killed", "error", err)
		}
	}
	r.terminated(ctx, end.exit)
	if err := handle.Destroy(cleanup); err != nil {
		r.log.Error("ended task was not freed", "error", err)
	}
	return end, true
}

// terminated reports an exit and calls the exited hooks.
func (r *Runner) terminated(ctx context.Context, exit Exit) {
	r.emit(EventTerminated, exit.String(), func(s *State) { s.Phase, s.Exit = PhasePending, &exit })
	r.exited(ctx, &ExitedRequest{Exit: exit})
}

// settle decides over an ending and, where the task is to be started again, waits out the delay. Where the wait is
// cut short by the end of life the next round ends at once, and the state keeps the time of the start.
func (r *Runner) settle(life context.Context, end ending) verdict {
	if r.stopped.Err() != nil {
		return verdict{last: EventKilled, reason: context.Cause(r.stopped).Error()}
	}
	window, now := r.State().Window, time.Now()
	v := r.config.Restart.decide(&window, end, now)
	if v.last != "" {
		return v
	}
	message := fmt.Sprintf("restarting in %v: %s", v.delay.Round(time.Millisecond), v.reason)
	r.emit(EventRestarting, message, func(s *State) {
		s.Window, s.RestartAt, s.LastRestart = window, now.Add(v.delay), now
		s.Restarts++
	})
	r.pause(life, v.delay)
	return v
}

// pause waits until the delay is over, a restart is asked for, or life is done.
func (r *Runner) pause(life context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case reason := <-r.restart:
		r.emit(EventRestartSignal, reason, nil)
	case <-life.Done():
	}
}

// die calls the stop hooks and reports the last event.
func (r *Runner) die(ctx context.Context, v verdict) {
	r.stopHooks(ctx)
	r.emit(v.last, v.reason, func(s *State) {
		s.Phase, s.Failed = PhaseDead, v.last == EventNotRestarting
		s.FinishedAt, s.RestartAt = time.Now(), time.Time{}
	})
}

func (r *Runner) setHandle(handle Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = handle
}
