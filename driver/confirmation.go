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
// confirmLimit and, to forget ended tasks too, after forgetLimit; and each confirmLimit while end reports that tasks
// run which the host has not recovered.
func (c confirmations) watch(ctx context.Context, end func(ctx context.Context, before time.Time, forget bool) bool) {
	var again <-chan time.Time // nil if nothing is to be ended or forgotten
	var at time.Time
	for {
		select {
		case at = <-c:
			pause(ctx, time.Until(at.Add(confirmLimit)))
		case <-again:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		forget := time.Since(at) >= forgetLimit
		unclaimed := end(ctx, at, forget)
		switch {
		case unclaimed:
			again = time.After(confirmLimit)
		case forget:
			again = nil
		default:
			again = time.After(time.Until(at.Add(forgetLimit)))
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
