// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"sync"
	"time"
)

// confirmLimit is how long after it has connected a host may take to recover a task. A host recovers all tasks that it
// knows of as soon as it has started.
const confirmLimit = time.Minute

// forgetLimit is how long the end of a task is kept for a host that knew of the task: drivers that are slow to start
// hold up its recoveries, and a task whose end is lost would run again.
const forgetLimit = time.Hour

// confirmationWatch ends the tasks that a host does not know of: it was killed before it had persisted their handles,
// and asks for them neither by StartTask nor by RecoverTask if their job was stopped meanwhile.
type confirmationWatch struct {
	connected chan time.Time // the newest connection that was not waited for yet
	work      sync.WaitGroup
}

// newConfirmationWatch calls end after each connection, with its time, unless another follows at once, until ctx is
// done: after confirmLimit, and after forgetLimit unless there was another connection until then, when ended tasks
// are forgotten as well.
func newConfirmationWatch(
	ctx context.Context, end func(ctx context.Context, before time.Time, forget bool),
) *confirmationWatch {
	w := &confirmationWatch{connected: make(chan time.Time, 1)}
	w.work.Go(func() {
		var forget <-chan time.Time // nil if nothing is to be forgotten
		var at time.Time
		for {
			select {
			case at = <-w.connected:
				if pause(ctx, time.Until(at.Add(confirmLimit))); ctx.Err() != nil {
					return
				}
				end(ctx, at, false)
				forget = time.After(time.Until(at.Add(forgetLimit)))
			case <-forget:
				end(ctx, at, true)
			case <-ctx.Done():
				return
			}
		}
	})
	return w
}

// hostConnected is called when a host connects. A nil watch does nothing.
func (w *confirmationWatch) hostConnected() {
	if w == nil {
		return
	}
	select {
	case <-w.connected: // a newer one includes it
	default:
	}
	select {
	case w.connected <- time.Now():
	default: // another connects now
	}
}

// join waits for the end of the watch, whose context is done.
func (w *confirmationWatch) join() {
	if w != nil {
		w.work.Wait()
	}
}

// pause waits, or returns early when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
