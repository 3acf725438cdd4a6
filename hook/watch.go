// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sigkill is the signal of the second try to stop a task.
const sigkill = "SIGKILL"

// watch waits for the task's end, or brings it about when a stop or a restart is asked for. ended is false where ctx
// was done first.
func (r *Runner) watch(ctx context.Context, handle Handle) (end ending, ended bool) {
	waitCtx, cancel := context.WithCancel(ctx)
	exits := make(chan Exit, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() { r.await(waitCtx, handle, exits) })
	defer waiting.Wait()
	defer cancel()

	select {
	case end.exit = <-exits:
		return end, true
	case <-r.stopped.Done():
		end.exit, ended = r.kill(ctx, handle, context.Cause(r.stopped).Error(), exits)
		return end, ended
	case reason := <-r.restart:
		r.emit(EventRestartSignal, reason, nil)
		end.asked = true
		end.exit, ended = r.kill(ctx, handle, "restarting", exits)
		return end, ended
	case <-ctx.Done():
		return end, false
	}
}

// await sends the task's exit, unless ctx is done first. A wait that fails says nothing about the task: it is tried
// again until it succeeds or says that it never will.
func (r *Runner) await(ctx context.Context, handle Handle, exits chan<- Exit) {
	report := r.log.Error
	for retry := (backoff{}); ; {
		exit, err := handle.Wait(ctx)
		switch {
		case err == nil:
			exits <- exit // has room for the only one
			return
		case ctx.Err() != nil:
			return
		case !recoverable(err, true):
			exits <- Exit{Lost: err.Error()}
			return
		case isRestarting(err):
			r.log.Debug("wait is tried again", "error", err)
		default:
			report("wait is tried again", "error", err)
			report = r.log.Debug
		}
		if !sleep(ctx, retry.next()) {
			return
		}
	}
}

// kill stops the task: by the kill signal first, which the driver follows by a kill after the timeout, then by kills
// until the end is seen. It does not give up: a process that cannot be killed is not dead. ended is false where ctx
// was done first.
func (r *Runner) kill(ctx context.Context, handle Handle, reason string, exits <-chan Exit) (exit Exit, ended bool) {
	r.emit(EventKilling, reason, nil)
	signal, timeout, said := r.config.KillSignal, r.config.KillTimeout, false
	for retry := (backoff{}); ; signal, timeout = sigkill, 0 {
		err := stopHandle(ctx, handle, signal, timeout)
		if err != nil && !said && ctx.Err() == nil && !isRestarting(err) {
			r.emit(EventKillFailed, err.Error(), nil)
			said = true
		}
		timer := time.NewTimer(retry.next())
		select {
		case exit = <-exits:
			timer.Stop()
			return exit, true
		case <-ctx.Done():
			timer.Stop()
			return Exit{}, false
		case <-timer.C:
			r.log.Debug("task is killed again", "error", err)
		}
	}
}

// stopHandle gives the driver its timeout and time for the kill after it, and not more.
func stopHandle(ctx context.Context, handle Handle, signal string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+teardownTimeout)
	defer cancel()
	if err := handle.Stop(ctx, signal, timeout); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
