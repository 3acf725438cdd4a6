// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"maps"
	"slices"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
)

// keptReschedules is how many of the times at which predecessors were replaced are kept at least: after so many,
// every delay is the longest.
const keptReschedules = 64

// Reschedule decides by the policy of the group when an allocation that has failed is replaced, zero if it is not,
// and how long from now that is. It also returns when predecessors were replaced, with this one's replacement if that
// takes an attempt: a failure on the host's account takes none.
func (a *Alloc) Reschedule() (at time.Time, left time.Duration, all []hook.Instant) {
	s, own := a.Snapshot(), a.Persisted()
	tasks := a.Tasks()
	if len(tasks) == 0 || s.ClientStatus != allocation.Failed || own.Desired != allocation.DesiredRun || own.Next != "" ||
		own.Successor != nil { // which waits for its place
		return at, 0, nil
	}
	policy, byHost := tasks[0].group.Reschedule, failedByHost(s.Tasks)
	if byHost {
		policy = policy.OfHost()
	}
	now, failed, past := a.host.Now(), s.Finished(), own.All()
	past = past[max(0, len(past)-max(keptReschedules, policy.Attempts)):]
	ago := make([]time.Duration, 0, len(past))
	for _, at := range past {
		at = at.Here(now, max(policy.Interval, policy.MaxDelay))
		all, ago = append(all, at), append(ago, failed.Since(at))
	}
	left, ok := policy.Next(ago)
	if ok {
		at = failed.Wall.Add(left)
		left = hook.Deadline{From: failed, Delay: left}.Left(now)
		if !byHost {
			all = append(all, hook.Instant{Wall: now.Wall.Add(left), Boot: now.Boot, Up: now.Up + left})
		}
	}
	a.setRescheduled(at)
	return at, left, all
}

// failedByHost reports whether the host is at fault for all failures of the tasks.
func failedByHost(tasks map[string]*allocation.Task) bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(tasks)), func(t *allocation.Task) bool {
		return t.State.Failed && t.State.Cause != hook.CauseHost
	})
}

// decideOver decides whether an allocation of which all tasks are dead is replaced; then it is over.
func (a *Alloc) decideOver() {
	a.Reschedule()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over, a.shown = true, nil
}

// Rescheduled is called when an allocation that was to be replaced has been.
func (a *Alloc) Rescheduled() { a.setRescheduled(time.Time{}) }

func (a *Alloc) setRescheduled(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rescheduled = at
	a.shown = nil
}
