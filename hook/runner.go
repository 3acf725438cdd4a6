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

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-multierror"
)

const (
	defaultKillTimeout = 5 * time.Second
	// teardownTimeout bounds each call for a task that has ended or is left running.
	teardownTimeout = 10 * time.Second
)

// Config configures a [Runner].
type Config struct {
	// Starter starts the task.
	Starter Starter
	// Hooks are called in this order at every stage.
	Hooks []Hook
	// Restart decides whether an ended task is started again. The zero policy never restarts.
	Restart RestartPolicy
	// Retry reports whether a task whose exit is retryable is restarted without counting an attempt: at most 10 times
	// in a row, with growing delays. It is called at each end; nil is never.
	Retry func() bool
	// KillSignal is the name of the signal that stops the task; empty is the driver's default.
	KillSignal string
	// KillTimeout is the time between KillSignal and the kill; 0 means 5 s.
	KillTimeout time.Duration
	// Turn is asked before a running task is signaled to end, for good or for a restart. It returns nil if others need
	// not end first, and else a channel after whose close it is asked again; a nil Turn is always nil.
	Turn func() <-chan struct{}
	// Now tells the present, with the boot of the machine, so that restarts come in time however the clock is set; nil
	// is the wall clock.
	Now func() Instant
	// Observer receives every event; nil for none.
	Observer Observer
	// Logger should name the task and its allocation in every line, by [hclog.Logger.With]; nil discards.
	Logger hclog.Logger

	// State is the state of a task of an earlier run of the agent: the one the observer received last.
	State State
	// Recovered is the handle of such a task if it runs: the runner then enters at poststart. Without it a State
	// whose phase is running means that the task is lost.
	Recovered Handle
}

// Runner runs one task from its first start to its last end. Its methods may be called from any goroutine.
type Runner struct {
	config Config
	log    hclog.Logger
	// stopped is done after Stop; its cause is the reason.
	stopped context.Context
	stop    context.CancelCauseFunc
	// restart holds at most one request to restart, with its reason.
	restart chan string
	// reporting serializes the observer's calls.
	reporting sync.Mutex

	mu     sync.Mutex // guards following
	state  State
	handle Handle // nil while the task is not running
	// stuck says that the running task was signaled to end and the driver could not end it.
	stuck bool
	// disturb is called when a restart is requested; nil while the runner does not wait in this way.
	disturb context.CancelFunc
}

// New returns a runner that does nothing before Run.
func New(config Config) *Runner {
	config.KillTimeout = cmp.Or(config.KillTimeout, defaultKillTimeout)
	config.State.Phase = cmp.Or(config.State.Phase, PhasePending)
	if config.Now == nil {
		config.Now = func() Instant { return Instant{Wall: time.Now()} }
	}
	config.State.settle(config.Now(), config.Restart.Interval)
	r := &Runner{config: config, log: loggerOr(config.Logger), state: config.State, restart: make(chan string, 1)}
	r.stopped, r.stop = context.WithCancelCause(context.Background())
	if reason := config.State.RestartRequested; reason != "" {
		r.restart <- reason // has room for one
	}
	return r
}

// Run runs the task and returns nil when it is dead. When ctx is done it leaves the task as it is, running or not,
// calls the shutdown hooks and returns the cause of ctx. It may be called once.
func (r *Runner) Run(ctx context.Context) error {
	if r.State().Phase == PhaseDead {
		return nil
	}
	// life is done when the task must not be started again, for either reason.
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()

	for end := r.enter(ctx, life); end != nil; end = r.once(ctx, life) {
		if d := r.afterEnd(life, end); d.last != "" {
			r.die(ctx, d, end.exit.At)
			return nil
		}
	}
	r.shutdown(ctx)
	return context.Cause(ctx)
}

// Stop ends the task for good: a running one with the kill signal, a delay or a start at once. It returns without
// waiting; Run returns when the task is dead. Later calls have no effect.
func (r *Runner) Stop(reason string) { r.stop(errors.New(reason)) }

// Restart stops the running task and starts it again at once, or ends the delay before a restart. It does not count as
// an attempt of the restart policy and returns without waiting for it: the observer has received the request. It has no
// effect on a start in progress.
func (r *Runner) Restart(reason string) error {
	state := r.State()
	if state.Phase == PhaseDead || r.stopped.Err() != nil {
		return fmt.Errorf("restart: %w", ErrNotRunning)
	}
	if state.RestartRequested != "" {
		return nil
	}
	r.emit(EventRestartSignal, reason, func(s *State) {
		if s.Phase != PhaseDead {
			s.RestartRequested = reason
		}
	})
	select {
	case r.restart <- reason:
	default: // one is pending
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disturb != nil {
		r.disturb()
	}
	return nil
}

// Ending reports whether others wait for the end of the task: it was stopped, or is running and to be restarted. They
// do not wait for one that the driver could not end, which is stuck.
func (r *Runner) Ending() (ending, stuck bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	restarting := r.state.Phase == PhaseRunning && r.state.RestartRequested != ""
	return r.state.Phase != PhaseDead && !r.stuck && (restarting || r.stopped.Err() != nil), r.stuck
}

// Signal sends a signal to the running task, by its name. Its error is [ErrNotRunning] if there is none.
func (r *Runner) Signal(ctx context.Context, signal string) error {
	r.mu.Lock()
	handle := r.handle
	r.mu.Unlock()
	if handle == nil {
		return fmt.Errorf("signal %s: %w", signal, ErrNotRunning)
	}
	r.emit(EventSignaling, "sending "+signal, func(s *State) { s.Signal = signal })
	return r.signal(ctx, handle, signal)
}

// signal sends a signal that the observer has received.
func (r *Runner) signal(ctx context.Context, handle Handle, signal string) error {
	err, message := handle.Signal(ctx, signal), "sent "+signal
	if err != nil {
		err = fmt.Errorf("signal %s: %w", signal, err)
		message = err.Error()
	}
	r.emit(EventSignaled, message, func(s *State) { s.Signal = "" })
	return err
}

// enter is the first round: of a new task, of a recovered one, or of one that was between two starts.
func (r *Runner) enter(ctx, life context.Context) *ending {
	if r.config.Recovered != nil {
		message := "task was running and has been recovered" // or its plugin may recover it later
		if m, ok := r.config.Recovered.(interface{ Missed() error }); ok && m.Missed() != nil {
			message = fmt.Sprintf("task was running and cannot be reached yet: %v", m.Missed())
		}
		r.emit(EventRecovered, message, func(s *State) { s.Phase, s.Ended = PhaseRunning, false })
		return r.attend(ctx, life, r.config.Recovered, true)
	}
	if end := r.resume(ctx, life); end != nil {
		return end
	}
	return r.once(ctx, life)
}

// resume goes on where an earlier run of the agent was: with a task that it has lost, an end or a delay. It returns
// nil if the task is to be started.
func (r *Runner) resume(ctx, life context.Context) *ending {
	state := r.State()
	switch {
	case state.Phase == PhaseRunning && !state.Ended:
		end := &ending{exit: Exit{Lost: "it was running and could not be recovered"}}
		if started := state.Started; started.Boot != "" && started.Boot != r.config.Now().Boot {
			end.exit.Lost = "the machine was restarted while it ran"
		}
		r.terminated(ctx, end)
		return end
	case state.Ended, state.Exit != nil && state.RestartAt.IsZero(): // the latter of an earlier build
		// The end was observed and no decision persisted: a task that has completed must not run again.
		r.exited(ctx, &ExitedRequest{Exit: *state.Exit})
		return &ending{exit: *state.Exit}
	case !state.RestartAt.IsZero() && state.RestartRequested == "":
		r.pause(life, state.Restart.Left(r.config.Now()))
	}
	return nil
}

// once is one round: a start and, if it succeeds, the task's run to its end; nil if ctx was done first.
func (r *Runner) once(ctx, life context.Context) *ending {
	handle, err := r.startApart(life)
	switch {
	case err == nil:
		return r.attend(ctx, life, handle, false)
	case ctx.Err() != nil:
		return nil
	}
	return &ending{startErr: err}
}

// startApart starts the task in a goroutine that ends with the start: it takes a larger stack than the runner needs,
// which would hold that for as long as the task runs.
func (r *Runner) startApart(life context.Context) (handle Handle, err error) {
	var starting sync.WaitGroup
	starting.Go(func() { handle, err = r.start(life) })
	starting.Wait()
	return handle, err
}

// start calls the prestart hooks and the starter.
func (r *Runner) start(life context.Context) (Handle, error) {
	// life ends a little after a stop: context.AfterFunc has a goroutine of its own.
	if err := cmp.Or(life.Err(), r.stopped.Err()); err != nil {
		return nil, err
	}
	r.emit(EventSetup, "preparing the task", nil)
	if err := r.prestart(life); err != nil {
		r.failed(life, EventHookFailed, err)
		return nil, err
	}
	handle, err := r.launch(life)
	if err != nil {
		r.failed(life, EventDriverFailure, err)
		return nil, err
	}
	select {
	case <-r.restart: // requested before the task ran: this start is it
	default:
	}
	r.emit(EventStarted, "task started", func(s *State) {
		s.Phase, s.Started, s.RestartRequested = PhaseRunning, r.config.Now(), ""
		s.StartedAt, s.RestartAt, s.Restart = s.Started.Wall, time.Time{}, Deadline{}
		if s.Window.From.IsZero() {
			s.Window.From = s.Started
		}
	})
	return handle, nil
}

// launch starts the task and retries while its driver's plugin is restarting.
func (r *Runner) launch(life context.Context) (Handle, error) {
	for retry := (backoff{}); ; {
		handle, err := r.config.Starter.Start(life)
		if err == nil {
			return handle, nil
		}
		if !isRestarting(err) {
			return nil, err // a driver says itself what it started
		}
		r.log.Debug("start task", "error", err)
		if !sleep(life, retry.next()) {
			return nil, fmt.Errorf("start: %w", life.Err())
		}
	}
}

// attend watches a running task to its end; nil if ctx was done first and the task keeps running.
func (r *Runner) attend(ctx, life context.Context, handle Handle, recovered bool) *ending {
	r.setHandle(handle)
	stats, _ := handle.(StatsOpener)
	r.poststart(life, &PoststartRequest{Stats: stats, Recovered: recovered})
	if recovered && life.Err() == nil {
		r.finishSignal(life, handle)
	}
	end := r.awaitUndisturbed(life, handle)
	if end == nil && ctx.Err() == nil {
		end = r.watch(ctx, handle)
	}
	r.setHandle(nil)
	if end != nil {
		r.finish(ctx, handle, end)
	}
	return end
}

// finish leaves nothing of a task that has ended.
func (r *Runner) finish(ctx context.Context, handle Handle, end *ending) {
	cleanup, cancel := teardown(ctx)
	defer cancel()
	if end.exit.Lost != "" {
		// A lost task may still run: a second one must not be started beside it.
		if err := handle.Stop(cleanup, sigkill, 0); err != nil {
			r.log.Debug("kill lost task", "error", err)
		}
	}
	r.terminated(ctx, end)
	if err := handle.Destroy(cleanup); err != nil {
		r.log.Error("destroy exited task", "error", err)
	}
}

// finishSignal sends a signal that an earlier run of the agent may not have sent.
func (r *Runner) finishSignal(life context.Context, handle Handle) {
	signal := r.State().Signal
	if signal == "" {
		return
	}
	if err := r.signal(life, handle, signal); err != nil {
		r.log.Error("finish an earlier request", "error", err)
	}
}

// terminated reports an exit and calls the exited hooks.
func (r *Runner) terminated(ctx context.Context, end *ending) {
	exit := &end.exit
	if exit.Cause = exit.cause(); end.requested || r.stopped.Err() != nil {
		exit.Cause = CauseOperator
	}
	r.report(Event{Type: EventTerminated, Message: exit.String(), Cause: exit.Cause}, func(s *State) {
		s.Exit, s.Ended, s.Signal = exit, true, ""
	})
	r.exited(ctx, &ExitedRequest{Exit: *exit})
}

// afterEnd applies the restart policy to an ending and, if the task is to be started again, waits for the delay. If the
// end of life cuts the wait short, the next round ends at once and the state keeps the time of the start.
func (r *Runner) afterEnd(life context.Context, end *ending) decision {
	if r.stopped.Err() != nil {
		return decision{last: EventKilled, reason: context.Cause(r.stopped).Error()}
	}
	state, now := r.State(), r.config.Now()
	window := state.Window
	end.requested = end.requested || state.RestartRequested != ""
	end.retry = r.config.Retry != nil && r.config.Retry()
	if end.startErr == nil {
		end.ran = now.Since(state.Started)
	}
	if !end.exit.At.IsZero() { // the agent may not have run then
		end.ran = min(end.ran, end.exit.At.Sub(state.StartedAt))
	}
	d := r.config.Restart.decide(&window, *end, now)
	d.cause = end.cause()
	if d.last != "" {
		return d
	}
	message := fmt.Sprintf("restarting in %v: %s", d.delay.Round(time.Millisecond), d.reason)
	r.emit(EventRestarting, message, func(s *State) {
		s.Phase, s.Ended = PhasePending, false
		s.Window, s.RestartAt, s.LastRestart = window, now.Wall.Add(d.delay), now.Wall
		s.Restart = Deadline{From: now, Delay: d.delay}
		s.Restarts++
		if end.requested {
			s.RestartRequested = ""
		}
	})
	r.pause(life, d.delay)
	return d
}

// pause waits until the delay is over, a restart is requested, or life is done.
func (r *Runner) pause(life context.Context, delay time.Duration) {
	for left := range Waits(r.config.Now, delay) {
		select {
		case <-time.After(left):
		case <-r.restart:
			return
		case <-life.Done():
			return
		}
	}
}

// die calls the stop hooks and reports the last event. The task ended at a time, if that is not zero: perhaps long
// before, while the agent did not run.
func (r *Runner) die(ctx context.Context, d decision, at time.Time) {
	r.stopHooks(ctx)
	r.emit(d.last, d.reason, func(s *State) {
		s.Phase, s.Ended = PhaseDead, false
		if s.Failed = d.last == EventNotRestarting; s.Failed {
			s.Cause = d.cause
		}
		s.Finished, s.RestartAt, s.Restart, s.RestartRequested = r.config.Now(), time.Time{}, Deadline{}, ""
		if s.FinishedAt = at; at.IsZero() {
			s.FinishedAt = s.Finished.Wall
		}
	})
}

func (r *Runner) setHandle(handle Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle, r.stuck = handle, false
}

func loggerOr(l hclog.Logger) hclog.Logger {
	if l == nil {
		return hclog.NewNullLogger()
	}
	return l
}

// prestart calls the prestart hooks up to the first error.
func (r *Runner) prestart(life context.Context) error {
	req := &PrestartRequest{Restarts: r.State().Restarts}
	for _, hook := range r.config.Hooks {
		h, ok := hook.(Prestart)
		if !ok {
			continue
		}
		if err := h.Prestart(life, req); err != nil {
			return fmt.Errorf("prestart hook %s: %w", h.Name(), err)
		}
	}
	return nil
}

func (r *Runner) poststart(life context.Context, req *PoststartRequest) {
	each(life, r, "poststart", context.WithCancel, func(ctx context.Context, h Poststart) error {
		return h.Poststart(ctx, req)
	})
}

func (r *Runner) exited(ctx context.Context, req *ExitedRequest) {
	each(ctx, r, "exited", teardown, func(ctx context.Context, h Exited) error { return h.Exited(ctx, req) })
}

func (r *Runner) stopHooks(ctx context.Context) {
	req := &StopRequest{State: r.State()}
	each(ctx, r, "stop", teardown, func(ctx context.Context, h Stop) error { return h.Stop(ctx, req) })
}

func (r *Runner) shutdown(ctx context.Context) {
	each(ctx, r, "shutdown", teardown, func(ctx context.Context, h Shutdown) error { return h.Shutdown(ctx) })
}

// each calls the hooks that implement a stage and logs their errors as one. A context that one hook has used up is not
// the next one's: derive makes one for each.
func each[H Hook](
	ctx context.Context, r *Runner, stage string, derive func(context.Context) (context.Context, context.CancelFunc),
	call func(context.Context, H) error,
) {
	errs := &multierror.Error{ErrorFormat: func(errs []error) string { return errors.Join(errs...).Error() }}
	for _, hook := range r.config.Hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		own, cancel := derive(ctx)
		if err := call(own, h); err != nil {
			errs = multierror.Append(errs, fmt.Errorf("hook %s: %w", h.Name(), err))
		}
		cancel()
	}
	if err := errs.ErrorOrNil(); err != nil {
		r.log.Error(stage+" hooks", "error", err)
	}
}

// teardown returns a context for what must be done although ctx may be done.
func teardown(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), teardownTimeout)
}
