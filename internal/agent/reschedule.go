// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"maps"
	"slices"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/state"
)

// replaceRetry is the delay before a replacement that could not be persisted is tried again.
const replaceRetry = 10 * time.Second

// reschedule replaces an allocation that has failed, if the policy of its group says so.
func (a *Agent) reschedule(l *alloc.Alloc) {
	at, left, all := l.Reschedule()
	if at.IsZero() {
		return
	}
	a.log.Info("reschedule allocation", "alloc_id", l.ID, "job", l.JobID, "at", at.Format(time.RFC3339))
	a.host.Work.Go(func() {
		if !a.pause(left) {
			return
		}
		if err := a.replace(l, all); err != nil {
			a.log.Error("replace allocation", "alloc_id", l.ID, "job", l.JobID, "error", err, "retry_in", replaceRetry)
			a.host.Counts.Fail("reschedule")
		}
		l.Rescheduled()
	})
}

// pause waits; false if the agent ends first.
func (a *Agent) pause(d time.Duration) bool {
	for left := range hook.Waits(a.host.Now, d) {
		select {
		case <-time.After(left):
		case <-a.host.Context.Done():
			return false
		}
	}
	return true
}

// toBeReplaced reports whether another allocation is to replace one that has ended: until it does, this one says so.
func (a *Agent) toBeReplaced(l *alloc.Alloc) bool {
	due, deferred := !l.Snapshot().Rescheduled.IsZero(), l.Persisted().Successor != nil
	if !due && !deferred {
		return false
	}
	current := a.currentVersion(l.JobID)
	return current.Spec != nil && (due || slices.Contains(current.Unplaced[l.Group], l.Index))
}

// ReplaceAlloc stops an allocation and starts another in its place, as Nomad does when a user stops one. Both are
// persisted at once. On a disk that is full the allocation ends all the same, and the other is started once there is
// room: the error says why it is not yet.
func (a *Agent) ReplaceAlloc(id string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	if l.Dead() {
		return nil
	}
	err = a.replace(l, l.Persisted().All())
	l.Stop(userStopped) // if nothing replaces it
	return err
}

// replace starts an allocation in the place of another, if the job lacks one there without that, unless it was done
// before. One that runs is stopped for it. past are the reschedules so far. If that cannot be persisted now it is
// tried again with what waits for a place.
func (a *Agent) replace(l *alloc.Alloc, past []hook.Instant) error {
	a.registering.Lock()
	defer a.registering.Unlock()
	current := a.currentVersion(l.JobID)
	if current.Spec == nil || a.superseded(l) ||
		l.StopReason() == "" && l.Snapshot().ClientStatus == allocation.Complete {
		return nil
	}
	runs := l.Live()
	_, missing := a.compare(current.Spec, l)
	i := slices.IndexFunc(missing, func(v vacancy) bool { return v.group.Name == l.Group && v.index == l.Index })
	if i < 0 {
		return nil
	}
	v := missing[i]
	v.previous, v.reschedules = l, past
	var stop []*alloc.Alloc
	if runs {
		stop = append(stop, l)
	}
	p := a.place(current.Spec, stop, []vacancy{v})
	if len(p.fill) == 0 {
		a.deferPlacement(current, v, runs)
		return nil
	}
	placed := current
	placed.Unplaced = withoutIndex(current.Unplaced, v)
	err := a.change(placed, nil, p, nil, userStopped)
	switch {
	case err == nil && len(placed.Unplaced) == 0:
		a.setUnplaced(current.ID, nil)
	case err != nil: // a disk that is full may have room later
		a.deferPlacement(current, v, runs)
	}
	return err
}

// superseded reports whether an allocation has had a successor, which may have ended since, or is not known any more.
func (a *Agent) superseded(l *alloc.Alloc) bool {
	all, created := a.list(), l.Persisted().CreateIndex
	return !slices.Contains(all, l) || slices.ContainsFunc(all, func(other *alloc.Alloc) bool {
		return other.JobID == l.JobID && other.Group == l.Group && other.Index == l.Index &&
			other.Persisted().CreateIndex > created
	})
}

// succeed sets which allocation a vacancy replaces: one of those that are stopped for it, or one whose successor
// waited for a place, or the newest if that or an earlier one is still ending: it holds the ports and cores.
func (a *Agent) succeed(v *vacancy, jobID string, surplus []*alloc.Alloc) {
	if v.previous != nil {
		return
	}
	if i := slices.IndexFunc(surplus, v.replaces); i >= 0 {
		v.previous = surplus[i]
		return
	}
	var newest *alloc.Alloc
	created := uint64(0)
	for _, l := range a.list() {
		if l.JobID != jobID || l.Group != v.group.Name || l.Index != v.index {
			continue
		}
		own := l.Persisted()
		if newest == nil || own.CreateIndex > created {
			newest, created = l, own.CreateIndex
		}
		if own.Successor != nil {
			v.previous, v.reschedules = l, own.Successor.All()
		}
	}
	if v.previous == nil && newest != nil && (!newest.Dead() || newest.Predecessor() != nil) {
		v.previous = newest
	}
}

// withoutIndex returns what waits for a place without a vacancy.
func withoutIndex(unplaced map[string][]int, v vacancy) map[string][]int {
	rest := maps.Clone(unplaced)
	own := slices.DeleteFunc(slices.Clone(rest[v.group.Name]), func(index int) bool { return index == v.index })
	if len(own) > 0 {
		rest[v.group.Name] = own
	} else {
		delete(rest, v.group.Name)
	}
	return rest
}

// deferPlacement persists that a vacancy of a job, which replaces an allocation, has no place yet, and that the
// allocation is stopped if it is to be; a.registering is held.
func (a *Agent) deferPlacement(current state.Job, v vacancy, stop bool) {
	group := v.group.Name
	a.mu.Lock()
	r := a.jobs[current.ID]
	if !slices.Contains(r.current.Unplaced[group], v.index) {
		unplaced := make(map[string][]int)
		maps.Copy(unplaced, r.current.Unplaced)
		unplaced[group] = append(slices.Clone(unplaced[group]), v.index)
		r.current.Unplaced = unplaced
	}
	current.Unplaced = r.current.Unplaced
	a.mu.Unlock()
	edit := v.previous.Edit(func(own *state.Allocation) {
		own.Successor = &state.Successor{Reschedules: state.NewReschedules(v.reschedules)}
		if stop {
			alloc.MarkStopped(own, userStopped)
		}
	})
	a.host.Persist(state.ChangeJob(&current), edit.Change())
	edit.Commit()
	a.retryPlacement() // which says why there is no place
}
