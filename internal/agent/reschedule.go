// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
)

// keptReschedules is how many of the times at which the predecessors of an allocation were replaced are kept at least: after so many
// every delay is the longest.
const keptReschedules = 64

// replaceRetry is the first wait before a replacement is tried again that could not be persisted.
const replaceRetry = 10 * time.Second

// reschedule starts another allocation in the place of one that has failed, if the policy of its group says so.
func (a *Agent) reschedule(l *alloc) {
	at, delay, past := l.rescheduleAt()
	if at.IsZero() {
		return
	}
	l.log.Info("reschedule allocation", "at", at.Format(time.RFC3339))
	a.work.Go(func() {
		if !a.pause(min(time.Until(at), delay)) { // the clock may have been set back since it failed
			return
		}
		a.replaceUntilDone(l, append(past, time.Now()))
		l.mu.Lock()
		l.rescheduled, l.shown = time.Time{}, nil
		l.mu.Unlock()
	})
}

// replaceUntilDone tries until it succeeds: a disk that is full may have room later.
func (a *Agent) replaceUntilDone(l *alloc, past []time.Time) {
	for wait := replaceRetry; ; wait = min(2*wait, time.Minute) {
		err := a.replace(l, past)
		if err == nil {
			return
		}
		l.log.Error("replace allocation", "error", err, "retry_in", wait)
		a.counts.fail("reschedule")
		if !a.pause(wait) {
			return
		}
	}
}

// pause waits; false if the agent ends first.
func (a *Agent) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// toBeReplaced reports whether another allocation is to take the place of one that has ended: until it does, this one says so.
func (a *Agent) toBeReplaced(l *alloc) bool {
	l.mu.Lock()
	due, deferred := !l.rescheduled.IsZero(), l.persisted.Successor != nil
	l.mu.Unlock()
	if !due && !deferred {
		return false
	}
	current, spec := a.currentVersion(l.job.ID)
	return spec != nil && (due || slices.Contains(current.Unplaced[l.group.Name], l.persisted.Index))
}

// rescheduleAt decides when an allocation that has failed is replaced, zero if it is not, and how long after its failure that is. It
// returns when those before it were.
func (a *alloc) rescheduleAt() (at time.Time, delay time.Duration, past []time.Time) {
	s := a.snapshot()
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.ClientStatus != allocation.Failed || s.DesiredStatus != allocation.DesiredRun || a.persisted.Next != "" ||
		a.persisted.Successor != nil { // which waits for its place
		return at, 0, nil
	}
	var failed time.Time
	for _, t := range s.Tasks {
		if t.State.FinishedAt.After(failed) {
			failed = t.State.FinishedAt
		}
	}
	past = slices.Clone(a.persisted.Reschedules)
	past = past[max(0, len(past)-max(keptReschedules, a.group.Reschedule.Attempts)):]
	delay, ok := a.group.Reschedule.Next(failed, past)
	if ok {
		at = failed.Add(delay)
	}
	a.rescheduled, a.shown = at, nil
	return at, delay, past
}

// userStopped is why an allocation ends that a user has stopped.
const userStopped = "stopped by a user"

// ReplaceAlloc stops an allocation and starts another in its place, as Nomad does when a user stops one. Both are persisted at once.
// On a disk that is full it ends all the same, and the other is started once there is room: the error says why it is not yet.
func (a *Agent) ReplaceAlloc(id string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	if l.dead() {
		return nil
	}
	l.mu.Lock()
	past := slices.Clone(l.persisted.Reschedules)
	l.mu.Unlock()
	err = a.replace(l, past)
	l.stop(userStopped) // if nothing takes its place
	return err
}

// replace starts an allocation in the place of another, if the job lacks one there without that, unless it was done before. One that
// runs is stopped for it. past are the reschedules so far. If that cannot be persisted now it is tried again with what waits for a place.
func (a *Agent) replace(l *alloc, past []time.Time) error {
	a.registering.Lock()
	defer a.registering.Unlock()
	current, spec := a.currentVersion(l.job.ID)
	runs := l.stopReason() == "" && !l.dead()
	if spec == nil || a.superseded(l) || l.stopReason() == "" && l.snapshot().ClientStatus == allocation.Complete {
		return nil
	}
	_, missing := a.compare(spec, l)
	missing = slices.DeleteFunc(missing, func(v vacancy) bool { return v.group.Name != l.group.Name || v.index != l.persisted.Index })
	if len(missing) == 0 {
		return nil
	}
	missing[0].previous, missing[0].reschedules = l, past
	var stop []*alloc
	if runs {
		stop = append(stop, l)
	}
	_, fill, _ := a.place(spec, stop, missing)
	if len(fill) == 0 {
		a.deferPlacement(current, spec, missing[0], runs)
		return nil
	}
	placed := current
	placed.Spec, placed.Unplaced = spec, withoutIndex(current.Unplaced, missing[0])
	err := a.change(placed, nil, stop, fill, nil, userStopped)
	switch {
	case err == nil && len(placed.Unplaced) == 0:
		a.setUnplaced(current.ID, nil)
	case err != nil && runs:
		a.deferPlacement(current, spec, missing[0], true)
	}
	return err
}

// superseded reports whether an allocation has had a successor, which may have ended since, or is not known any more.
func (a *Agent) superseded(l *alloc) bool {
	all := a.list()
	return !slices.Contains(all, l) || slices.ContainsFunc(all, func(other *alloc) bool {
		return other.job.ID == l.job.ID && other.group.Name == l.group.Name && other.persisted.Index == l.persisted.Index &&
			other.createIndex() > l.createIndex()
	})
}

// createIndex is that of the event of its creation.
func (a *alloc) createIndex() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.persisted.CreateIndex
}

// succeed says for a vacancy which allocation it replaces: one of those that are stopped for it, or one whose successor waited for a place,
// or the newest there was if that or an earlier one is still ending: it holds the ports and cores.
func (a *Agent) succeed(v *vacancy, jobID string, surplus []*alloc) {
	if v.previous != nil {
		return
	}
	if i := slices.IndexFunc(surplus, func(l *alloc) bool { return l.takesPlaceOf(*v) }); i >= 0 {
		v.previous = surplus[i]
		return
	}
	var newest *alloc
	for _, l := range a.list() {
		if l.job.ID != jobID || l.group.Name != v.group.Name || l.persisted.Index != v.index {
			continue
		}
		if newest == nil || l.createIndex() > newest.createIndex() {
			newest = l
		}
		l.mu.Lock()
		if s := l.persisted.Successor; s != nil {
			v.previous, v.reschedules = l, s.Reschedules
		}
		l.mu.Unlock()
	}
	if v.previous == nil && newest != nil && (!newest.dead() || newest.predecessor() != nil) {
		v.previous = newest
	}
}

// edited is what is persisted of an allocation with a change to it; a.saving is held until the change is made in memory too.
func (a *alloc) edited(edit func(*state.Allocation)) state.Change {
	a.mu.Lock()
	persisted := a.persisted
	a.mu.Unlock()
	edit(&persisted)
	return state.ChangeAllocation(&persisted)
}

// setNext says which allocation has replaced this one.
func (a *alloc) setNext(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.persisted.Next, a.persisted.Successor, a.shown = id, nil, nil
}
