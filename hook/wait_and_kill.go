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

// watch waits for the task's end, and kills the task on a stop or a restart. ended is false if ctx was done first.
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
	case <-r.restart:
		end.requested = true
		end.exit, ended = r.kill(ctx, handle, "restarting", exits)
		return end, ended
	case <-ctx.Done():
		return end, false
	}
}

// await sends the task's exit, unless ctx is done first. A wait that fails says nothing about the task: it is retried
// until it succeeds or its error is unrecoverable.
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
			r.log.Debug("wait for task", "error", err)
		default:
			report("wait for task", "error", err)
			report = r.log.Debug
		}
		if !sleep(ctx, retry.next()) {
			return
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
