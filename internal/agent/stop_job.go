// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// StopJob stops all allocations of a job; with purge the job is forgotten too.
func (a *Agent) StopJob(id string, purge bool, check func(index uint64) error) error {
	if err := a.isReady(); err != nil {
		return err
	}
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	r := a.jobs[id]
	if r == nil || !r.current.Current {
		a.mu.Unlock()
		return fmt.Errorf("job %q: %w", id, allocation.ErrNotFound)
	}
	if check != nil {
		if err := check(r.current.ModifyIndex); err != nil {
			a.mu.Unlock()
			return err
		}
	}
	r.current.Stopped, r.current.Current, r.current.Unplaced, r.unplaced = true, !purge, nil, nil
	persisted, namespace := r.current, ""
	if spec := r.versions[r.current.Version]; spec != nil {
		namespace = spec.Namespace
	}
	a.mu.Unlock()
	persisted.ModifyIndex = a.feed.Publish(feed.Event{Topic: feed.TopicJob, Type: "JobDeregistered", Key: id, Namespace: namespace})
	a.persist(state.ChangeJob(&persisted))
	failpoint.At("agent.stop.persisted")
	a.stopAllocs(id)
	a.mu.Lock()
	r.current = persisted
	a.mu.Unlock()
	return nil
}

// stopAllocs stops the allocations of a job that was stopped.
func (a *Agent) stopAllocs(id string) {
	stopEach(slices.DeleteFunc(a.list(), func(l *alloc) bool { return l.job.ID != id || l.dead() }), "the job was stopped")
}

// stopEach stops allocations, all at once: they share writes to the disk, which take many milliseconds each.
func stopEach(all []*alloc, reason string) {
	var stopping sync.WaitGroup
	for _, l := range all {
		stopping.Go(func() { l.stop(reason) })
	}
	stopping.Wait()
}
