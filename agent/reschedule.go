// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"slices"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/feed"
	"github.com/tachograph/tacho/agent/state"
)

// reschedule starts another allocation in the place of one that has failed, if the policy of its group says so.
func (a *Agent) reschedule(l *alloc) {
	at, past := l.rescheduleAt()
	if at.IsZero() {
		return
	}
	l.log.Info("reschedule allocation", "at", at.Format(time.RFC3339))
	a.work.Go(func() {
		due := time.NewTimer(time.Until(at))
		defer due.Stop()
		select {
		case <-due.C:
		case <-a.ctx.Done():
			return
		}
		if err := a.replace(l, append(past, time.Now())); err != nil {
			l.log.Error("reschedule allocation", "error", err)
			a.counts.fail("reschedule")
		}
		l.mu.Lock()
		l.rescheduled, l.shown = time.Time{}, nil
		l.mu.Unlock()
	})
}

// rescheduleAt decides when an allocation that has failed is replaced, zero if it is not, and returns when those before it were.
func (a *alloc) rescheduleAt() (at time.Time, past []time.Time) {
	s := a.snapshot()
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.ClientStatus != allocation.Failed || s.DesiredStatus != allocation.DesiredRun || a.persisted.Next != "" {
		return at, nil
	}
	var failed time.Time
	for _, t := range s.Tasks {
		if t.State.FinishedAt.After(failed) {
			failed = t.State.FinishedAt
		}
	}
	past = slices.Clone(a.persisted.Reschedules)
	if delay, ok := a.group.Reschedule.Next(failed, past); ok {
		at = failed.Add(delay)
	}
	a.rescheduled, a.shown = at, nil
	return at, past
}

// ReplaceAlloc stops an allocation and starts another in its place, as Nomad does when a user stops one.
func (a *Agent) ReplaceAlloc(id string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	if l.dead() {
		return nil
	}
	l.stop("stopped by a user")
	l.mu.Lock()
	past := slices.Clone(l.persisted.Reschedules)
	l.mu.Unlock()
	return a.replace(l, past)
}

// replace starts an allocation in the place of another, if the job lacks one there. past are the reschedules so far.
func (a *Agent) replace(l *alloc, past []time.Time) error {
	a.registering.Lock()
	defer a.registering.Unlock()
	current, spec := a.currentVersion(l.job.ID)
	if spec == nil {
		return nil
	}
	_, missing := a.compare(spec)
	missing = slices.DeleteFunc(missing, func(v vacancy) bool { return v.group.Name != l.group.Name || v.index != l.persisted.Index })
	if len(missing) == 0 {
		return nil
	}
	_, fill, _ := a.place(spec, nil, missing)
	if len(fill) == 0 {
		a.wait(current, spec, missing[0])
		return nil
	}
	own := newAllocation(spec, fill[0], current.Version, a.nextIndex())
	own.Previous, own.Reschedules = l.id, past
	made, err := a.newAlloc(own, spec, nil)
	if err != nil {
		return err
	}
	if err := a.persistReplacement(l, made); err != nil {
		return err
	}
	a.begin(made)
	l.publish(feed.Event{Type: "AllocationUpdated"})
	return nil
}

// persistReplacement persists both allocations, or neither.
func (a *Agent) persistReplacement(l, made *alloc) error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	before := l.persisted
	l.mu.Unlock()
	before.Next = made.id
	if err := a.apply(state.ChangeAllocation(&before), state.ChangeAllocation(&made.persisted)); err != nil {
		return errors.Join(err, closeAllocs(a.ctx, []*alloc{made}))
	}
	l.mu.Lock()
	l.persisted.Next, l.shown = made.id, nil
	l.mu.Unlock()
	return nil
}
