// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
)

// keptReschedules is how many of the times at which predecessors were replaced are kept at least: after so many,
// every delay is the longest.
const keptReschedules = 64

// Reschedule decides by the policy of the group when an allocation that has failed is replaced, zero if it is not,
// and how long from now that is. It also returns when its predecessors were replaced.
func (a *Alloc) Reschedule() (at time.Time, left time.Duration, past []time.Time) {
	s, own := a.Snapshot(), a.Persisted()
	tasks := a.Tasks()
	if len(tasks) == 0 || s.ClientStatus != allocation.Failed || own.Desired != allocation.DesiredRun || own.Next != "" ||
		own.Successor != nil { // which waits for its place
		return at, 0, nil
	}
	policy, finished := tasks[0].group.Reschedule, s.Finished()
	past = own.Reschedules[max(0, len(own.Reschedules)-max(keptReschedules, policy.Attempts)):]
	left, ok := policy.Next(finished.Wall, past)
	if ok {
		at = finished.Wall.Add(left)
		left = hook.Deadline{From: finished, Delay: left}.Left(a.host.Now())
	}
	a.setRescheduled(at)
	return at, left, slices.Clone(past)
}

// Rescheduled is called when an allocation that was to be replaced has been.
func (a *Alloc) Rescheduled() { a.setRescheduled(time.Time{}) }

func (a *Alloc) setRescheduled(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rescheduled = at
	a.shown = nil
}
