// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sigkill is the signal of the second attempt to stop a task.
const sigkill = "SIGKILL"

// watch waits for the task's end, and kills the task on a stop or a restart that is asked for. ended is false if ctx was done first.
func (r *Runner) watch(ctx context.Context, handle Handle) (end ending, ended bool) {
	waitCtx, cancel := context.WithCancel(ctx)
	exits := make(chan Exit, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if exit, ended := r.await(waitCtx, handle); ended {
			exits <- exit // has room for the only one
		}
	})
	defer waiting.Wait()
	defer cancel()

	select {
	case end.exit = <-exits:
		return end, true
	case <-r.stopped.Done():
		end.exit, ended = r.kill(ctx, handle, context.Cause(r.stopped).Error(), exits)
		return end, ended
	case <-r.restart:
		end.requested = true
		end.exit, ended = r.kill(ctx, handle, "restarting", exits)
		return end, ended
	case <-ctx.Done():
		return end, false
	}
}

// awaitUndisturbed waits for the task's end until a stop or a restart is asked for. It needs no goroutine beside the runner's: an
// agent has hundreds of tasks of which nothing is asked.
func (r *Runner) awaitUndisturbed(ctx context.Context, handle Handle) (exit Exit, ended bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()
	r.mu.Lock()
	r.disturb = cancel
	requested := len(r.restart) > 0
	r.mu.Unlock()
	if !requested {
		exit, ended = r.await(ctx, handle)
	}
	r.mu.Lock()
	r.disturb = nil
	r.mu.Unlock()
	return exit, ended
}

// await waits for the task's exit; ended is false if ctx is done first. A wait that fails says nothing about the task: it is
// retried until it succeeds or its error is unrecoverable.
func (r *Runner) await(ctx context.Context, handle Handle) (exit Exit, ended bool) {
	report := r.log.Error
	for retry := (backoff{}); ; {
		exit, err := handle.Wait(ctx)
		switch {
		case err == nil:
			return exit, true
		case ctx.Err() != nil:
			return Exit{}, false
		case !recoverable(err, true):
			return Exit{Lost: err.Error()}, true
		case isRestarting(err):
			r.log.Debug("wait for task", "error", err)
		default:
			report("wait for task", "error", err)
			report = r.log.Debug
		}
		if !sleep(ctx, retry.next()) {
			return Exit{}, false
		}
	}
}

// kill stops the task: with the kill signal first, after whose timeout the driver kills, then with SIGKILL until the end
// is observed. It does not stop trying: a process that cannot be killed is not dead. ended is false if ctx was done
// first.
func (r *Runner) kill(ctx context.Context, handle Handle, reason string, exits <-chan Exit) (exit Exit, ended bool) {
	r.emit(EventKilling, reason, nil)
	signal, timeout, reported := r.config.KillSignal, r.config.KillTimeout, false
	for retry := (backoff{}); ; signal, timeout = sigkill, 0 {
		err := stopHandle(ctx, handle, signal, timeout)
		if err != nil && !reported && ctx.Err() == nil && !isRestarting(err) {
			r.emit(EventKillFailed, err.Error(), nil)
			reported = true
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
			r.log.Debug("kill task again", "error", err)
		}
	}
}

// stopHandle calls the driver with the timeout, time for the kill after it, and no more.
func stopHandle(ctx context.Context, handle Handle, signal string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+teardownTimeout)
	defer cancel()
	if err := handle.Stop(ctx, signal, timeout); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
