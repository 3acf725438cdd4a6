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

// watch waits for the task's end, and kills the task on a stop or a restart that is asked for. It returns nil
// if ctx was done first.
func (r *Runner) watch(ctx context.Context, handle Handle) *ending {
	waitCtx, cancel := context.WithCancel(ctx)
	exits := make(chan *ending, 1)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if end := r.await(waitCtx, handle); end != nil {
			exits <- end // has room for the only one
		}
	})
	defer waiting.Wait()
	defer cancel()

	select {
	case end := <-exits:
		return end
	case <-r.stopped.Done():
		return r.kill(ctx, handle, context.Cause(r.stopped).Error(), exits)
	case <-r.restart:
		end := r.kill(ctx, handle, "restarting", exits)
		if end != nil {
			end.requested = true
		}
		return end
	case <-ctx.Done():
		return nil
	}
}

// awaitUndisturbed waits for the task's end until a stop or a restart is asked for. It needs no goroutine beside the
// runner's: most of an agent's hundreds of tasks are left alone.
func (r *Runner) awaitUndisturbed(life context.Context, handle Handle) (end *ending) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	r.mu.Lock()
	r.disturb = cancel
	requested := len(r.restart) > 0
	r.mu.Unlock()
	if !requested {
		end = r.await(ctx, handle)
	}
	r.mu.Lock()
	r.disturb = nil
	r.mu.Unlock()
	return end
}

// await waits for the task's exit; nil if ctx is done first. A wait that fails says nothing about the task: it is
// retried until it succeeds or its error is unrecoverable.
func (r *Runner) await(ctx context.Context, handle Handle) *ending {
	report := r.log.Error
	for retry := (backoff{}); ; {
		exit, err := handle.Wait(ctx)
		switch {
		case err == nil:
			return &ending{exit: exit}
		case ctx.Err() != nil:
			return nil
		case !recoverable(err, true):
			return &ending{exit: Exit{Lost: err.Error()}}
		case isRestarting(err):
			r.log.Debug("wait for task", "error", err)
		default:
			report("wait for task", "error", err)
			report = r.log.Debug
		}
		if !sleep(ctx, retry.next()) {
			return nil
		}
	}
}

// awaitTurn waits until the task may be signaled to end. It returns early, with true, at the task's end and when ctx is
// done.
func (r *Runner) awaitTurn(ctx context.Context, exits <-chan *ending) (end *ending, over bool) {
	for r.config.Turn != nil {
		again := r.config.Turn()
		if again == nil {
			break
		}
		select {
		case end := <-exits:
			return end, true
		case <-ctx.Done():
			return nil, true
		case <-again:
		}
	}
	return nil, false
}

// kill stops the task in its turn: with the kill signal first, after whose timeout the driver kills, then with SIGKILL
// until the end is observed. It does not stop trying: a process that cannot be killed is not dead. It returns nil if
// ctx was done first.
func (r *Runner) kill(ctx context.Context, handle Handle, reason string, exits <-chan *ending) *ending {
	if end, over := r.awaitTurn(ctx, exits); over {
		return end
	}
	r.emit(EventKilling, reason, nil)
	signal, timeout, reported := r.config.KillSignal, r.config.KillTimeout, false
	asked := time.Now()
	for retry := (backoff{}); ; {
		err := stopHandle(ctx, handle, signal, timeout)
		// Whether the task has got the signal is not known if the plugin restarts: it is sent again, and the task has
		// the rest of its time.
		if timeout = r.config.KillTimeout - time.Since(asked); !isRestarting(err) || timeout <= 0 {
			signal, timeout = sigkill, 0
		}
		if err != nil && !reported && ctx.Err() == nil && !isRestarting(err) {
			r.emit(EventKillFailed, err.Error(), func(*State) { r.stuck = true })
			reported = true
		}
		timer := time.NewTimer(retry.next())
		select {
		case end := <-exits:
			timer.Stop()
			return end
		case <-ctx.Done():
			timer.Stop()
			return nil
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
