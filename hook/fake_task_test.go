// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tachograph/tacho/hook"
)

// taskDriver starts tasks by a script, one step per start; the last step is repeated.
type taskDriver struct {
	script []taskStart

	mu      sync.Mutex // guards following
	starts  []time.Time
	tasks   []*task
	running int
	most    int // tasks running at one moment
}

// taskStart is what one call of Start does, and the task that it starts.
type taskStart struct {
	takes time.Duration
	err   error

	runs     time.Duration // 0 is for ever
	exit     hook.Exit
	waitErrs []error // returned by the first calls of Wait
	stopErrs []error // returned by the first calls of Stop, which then do nothing
	obeys    bool    // ends by the kill signal; else only by the kill
	ends     time.Duration
	lingers  time.Duration // how long Wait takes to return when ctx is done
}

func (d *taskDriver) Start(ctx context.Context) (hook.Handle, error) {
	d.mu.Lock()
	step := d.script[min(len(d.starts), len(d.script)-1)]
	d.starts = append(d.starts, time.Now())
	d.mu.Unlock()
	select {
	case <-time.After(step.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if step.err != nil {
		return nil, step.err
	}
	return d.add(step), nil
}

// add returns a task that runs from now on.
func (d *taskDriver) add(step taskStart) *task {
	t := &task{driver: d, step: step, gone: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks = append(d.tasks, t)
	d.running++
	d.most = max(d.most, d.running)
	if step.runs > 0 {
		t.end = time.AfterFunc(step.runs, func() { t.die(step.exit) })
	}
	return t
}

func (d *taskDriver) startCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.starts)
}

func (d *taskDriver) runningNow() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running
}

// task is a handle.
type task struct {
	driver *taskDriver
	step   taskStart
	end    *time.Timer
	gone   chan struct{}

	mu        sync.Mutex // guards following
	calls     []string   // of Stop and Signal
	destroyed int
	exit      hook.Exit
}

func (t *task) die(exit hook.Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.gone:
		return
	default:
	}
	t.exit = exit
	t.driver.mu.Lock()
	t.driver.running--
	t.driver.mu.Unlock()
	close(t.gone)
}

func (t *task) Wait(ctx context.Context) (hook.Exit, error) {
	t.mu.Lock()
	if len(t.step.waitErrs) > 0 {
		err := t.step.waitErrs[0]
		t.step.waitErrs = t.step.waitErrs[1:]
		t.mu.Unlock()
		return hook.Exit{}, err
	}
	t.mu.Unlock()
	select {
	case <-t.gone:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.exit, nil
	case <-ctx.Done():
		<-time.After(t.step.lingers)
		return hook.Exit{}, ctx.Err()
	}
}

// Stop does what a driver does: the signal, the timeout, the kill.
func (t *task) Stop(ctx context.Context, signal string, timeout time.Duration) error {
	t.mu.Lock()
	t.calls = append(t.calls, fmt.Sprintf("stop %s %v", signal, timeout))
	if len(t.step.stopErrs) > 0 {
		err := t.step.stopErrs[0]
		t.step.stopErrs = t.step.stopErrs[1:]
		t.mu.Unlock()
		return err
	}
	t.mu.Unlock()
	if t.step.obeys && signal != "SIGKILL" {
		select {
		case <-time.After(t.step.ends):
			t.die(hook.Exit{Code: 143, Signal: 15})
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	select {
	case <-time.After(timeout):
		t.die(hook.Exit{Code: 137, Signal: 9})
	case <-t.gone:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (t *task) Signal(_ context.Context, signal string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, "signal "+signal)
	if signal == "SIGNONE" {
		return errors.New("no such signal")
	}
	return nil
}

func (t *task) Destroy(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.destroyed++
	return nil
}

// measuredTask is a handle with stats.
type measuredTask struct {
	*task
	*statsDriver
}

// recorder is a hook of all phases and an observer: it writes down what happens.
type recorder struct {
	name  string
	fails map[string]error

	mu     sync.Mutex // guards following
	lines  []string
	events []hook.Event
	states []hook.State
}

func (r *recorder) Name() string { return r.name }

// noteEnd records that ctx of a phase at the end is over too early.
func (r *recorder) noteEnd(ctx context.Context, phase, detail string) error {
	if ctx.Err() != nil {
		detail = " with a dead context"
	}
	return r.note(phase, detail)
}

func (r *recorder) note(phase, detail string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, phase+detail)
	return r.fails[phase]
}

func (r *recorder) Prestart(_ context.Context, req *hook.PrestartRequest) error {
	return r.note("prestart", fmt.Sprintf(" %d", req.Restarts))
}

func (r *recorder) Poststart(_ context.Context, req *hook.PoststartRequest) error {
	detail := ""
	if req.Stats != nil {
		detail += " with stats"
	}
	if req.Recovered {
		detail += " recovered"
	}
	return r.note("poststart", detail)
}

func (r *recorder) Exited(ctx context.Context, req *hook.ExitedRequest) error {
	return r.noteEnd(ctx, "exited", fmt.Sprintf(" %d", req.Exit.Code))
}

func (r *recorder) Stop(ctx context.Context, _ *hook.StopRequest) error {
	return r.noteEnd(ctx, "stop", "")
}

func (r *recorder) Shutdown(ctx context.Context) error { return r.noteEnd(ctx, "shutdown", "") }

func (r *recorder) TaskChanged(state hook.State, event hook.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, "event "+string(event.Type))
	r.events = append(r.events, event)
	r.states = append(r.states, state)
}

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

// types returns the types of all events so far.
func (r *recorder) types() []hook.EventType {
	r.mu.Lock()
	defer r.mu.Unlock()
	var types []hook.EventType
	for _, e := range r.events {
		types = append(types, e.Type)
	}
	return types
}

// last returns the last event and its state.
func (r *recorder) last() (hook.Event, hook.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		return hook.Event{}, hook.State{}
	}
	return r.events[len(r.events)-1], r.states[len(r.states)-1]
}

// messages returns what the events of a type say.
func (r *recorder) messages(of hook.EventType) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Type == of {
			all = append(all, e.Message)
		}
	}
	return all
}
