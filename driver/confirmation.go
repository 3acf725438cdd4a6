// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"time"
)

// confirmLimit is how long after it has connected a host may take to recover a task. A host recovers all tasks that it
// knows of as soon as it has started.
const confirmLimit = time.Minute

// forgetLimit is how long the end of a task is kept for a host that knew of the task: drivers that are slow to start
// hold up its recoveries, and a task whose end is lost would run again.
const forgetLimit = time.Hour

// confirmations has the newest connection of a host that was not waited for yet; it is nil for a host in this process.
// Tasks are ended that a host does not know of: it was killed before it had persisted their handles, and asks for them
// neither by StartTask nor by RecoverTask if their job was stopped meanwhile.
type confirmations chan time.Time

// watch calls end after each connection, with its time, unless another follows at once, until ctx is done: after
// confirmLimit and, to forget ended tasks too, after forgetLimit.
func (c confirmations) watch(ctx context.Context, end func(ctx context.Context, before time.Time, forget bool)) {
	var forget <-chan time.Time // nil if nothing is to be forgotten
	var at time.Time
	for {
		select {
		case at = <-c:
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
}

// connected is called when a host connects.
func (c confirmations) connected() {
	select {
	case <-c: // a newer one includes it
	default:
	}
	select {
	case c <- time.Now():
	default: // another connects now, or there is no watch
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
