// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"maps"
	"slices"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
)

// indexes are what is persisted of the allocations that wait for a place; nil of none.
func indexes(unplaced map[string]*snapshot.Unplaced) map[string][]int {
	if len(unplaced) == 0 {
		return nil
	}
	all := make(map[string][]int, len(unplaced))
	for name, u := range unplaced {
		all[name] = u.Indexes
	}
	return all
}

// setUnplaced says which allocations of a job's current version wait for a place.
func (a *Agent) setUnplaced(id string, unplaced map[string]*snapshot.Unplaced) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.jobs[id]; r != nil {
		r.unplaced, r.current.Unplaced = nil, indexes(unplaced)
		if len(unplaced) > 0 {
			r.unplaced = unplaced
		}
	}
}

// waiting are the jobs that have allocations without a place.
func (a *Agent) waiting() (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.jobs {
		if len(r.current.Unplaced) > 0 && r.current.Current && !r.current.Stopped {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// retryPlacement places allocations that wait for it, if this node can run them now: something has become free, or a driver came.
func (a *Agent) retryPlacement() {
	if len(a.waiting()) == 0 {
		return
	}
	a.work.Go(func() {
		for !a.placeAll() && a.placing.CompareAndSwap(false, true) { // a disk that is full may have room later
			if !a.pause(replaceRetry) {
				return
			}
			a.placing.Store(false)
		}
	})
}

// placeAll places what waits for it in all jobs, and returns false if that is to be tried again.
func (a *Agent) placeAll() (done bool) {
	a.registering.Lock()
	defer a.registering.Unlock()
	done = true
	for _, id := range a.waiting() {
		if err := a.placeWaiting(id); err != nil {
			a.log.Error("place allocations", "job", id, "error", err, "retry_in", replaceRetry)
			a.counts.fail("placement")
			done = false
		}
	}
	return done
}

// placeWaiting places those allocations of a job that wait for it, as far as this node can run them; a.registering is held.
func (a *Agent) placeWaiting(id string) error {
	current, spec := a.currentVersion(id)
	if spec == nil {
		return nil
	}
	current.Spec = spec
	surplus, missing := a.compare(spec)
	missing = slices.DeleteFunc(missing, func(v vacancy) bool { return !slices.Contains(current.Unplaced[v.group.Name], v.index) })
	surplus = slices.DeleteFunc(surplus, func(l *alloc) bool {
		return !slices.ContainsFunc(missing, l.takesPlaceOf)
	})
	stop, placed, unplaced := a.place(spec, surplus, missing)
	before := current.Unplaced
	current.Unplaced = indexes(unplaced)
	if len(placed) > 0 || !maps.EqualFunc(before, current.Unplaced, slices.Equal) {
		if err := a.change(current, nil, stop, placed, nil, newerVersion); err != nil {
			return err
		}
	}
	a.setUnplaced(id, unplaced)
	return nil
}

// withoutIndex returns what waits for a place without a vacancy.
func withoutIndex(unplaced map[string][]int, v vacancy) map[string][]int {
	rest := maps.Clone(unplaced)
	if own := slices.DeleteFunc(slices.Clone(rest[v.group.Name]), func(index int) bool { return index == v.index }); len(own) > 0 {
		rest[v.group.Name] = own
	} else {
		delete(rest, v.group.Name)
	}
	return rest
}

// deferPlacement persists that a vacancy of a job, which replaces an allocation, has no place yet, and that the allocation is stopped if it
// is to be; a.registering is held.
func (a *Agent) deferPlacement(current state.Job, spec *job.Job, v vacancy, stop bool) {
	current.Unplaced = make(map[string][]int)
	a.mu.Lock()
	maps.Copy(current.Unplaced, a.jobs[current.ID].current.Unplaced)
	if !slices.Contains(current.Unplaced[v.group.Name], v.index) {
		current.Unplaced[v.group.Name] = append(slices.Clone(current.Unplaced[v.group.Name]), v.index)
	}
	a.jobs[current.ID].current.Unplaced = current.Unplaced
	a.mu.Unlock()
	current.Spec = spec
	l := v.previous
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	l.persisted.Successor = &state.Successor{Reschedules: v.reschedules}
	l.mu.Unlock()
	a.persist(state.ChangeJob(&current), l.edited(func(own *state.Allocation) {
		if stop {
			markStopped(own, userStopped)
		}
	}))
	if stop {
		l.setStopping(userStopped)
	}
	a.retryPlacement() // which says why there is no place
}

// currentVersion is the version of a job whose allocations shall run; nil if there is none.
func (a *Agent) currentVersion(id string) (state.Job, *job.Job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.jobs[id]
	if r == nil || !r.current.Current || r.current.Stopped {
		return state.Job{}, nil
	}
	return r.current, r.versions[r.current.Version]
}
