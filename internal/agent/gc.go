// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/feed"
)

// collect removes ended allocations that are old, or too many, until ctx is done.
func (a *Agent) collect(ctx context.Context) {
	for {
		timer := time.NewTimer(max(time.Second, a.current().Client.GCInterval))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if err := a.collectDue(time.Now()); err != nil {
			a.log.Error("remove ended allocations", "error", err)
			a.counts.fail("gc")
		}
	}
}

// collectDue removes the ended allocations that are old, or too many.
func (a *Agent) collectDue(now time.Time) error {
	a.registering.Lock() // a version that is being registered is one that nothing refers to yet
	defer a.registering.Unlock()
	c := a.current().Client
	_, err := a.remove(garbage(a.endedAllocs(), c.GCAge, c.GCMaxAllocs, now))
	_, orphansErr := a.removeOrphans(c.GCAge, now)
	return errors.Join(err, orphansErr)
}

// endedAlloc is an allocation that has ended, and that none is to replace.
type endedAlloc struct {
	alloc *alloc
	at    time.Time
}

func (a *Agent) endedAllocs() []endedAlloc {
	var ended []endedAlloc
	for _, l := range a.list() {
		select {
		case <-l.done:
		default:
			continue
		}
		if a.toBeReplaced(l) || l.predecessor() != nil { // others find by it what they have to wait for
			continue
		}
		var at time.Time
		for _, t := range l.snapshot().Tasks {
			if t.State.FinishedAt.After(at) {
				at = t.State.FinishedAt
			}
		}
		ended = append(ended, endedAlloc{l, at})
	}
	return ended
}

// garbage are the ended allocations that are older than age, and of the others the oldest beyond a number.
func garbage(ended []endedAlloc, age time.Duration, most int, now time.Time) []endedAlloc {
	slices.SortFunc(ended, func(a, b endedAlloc) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.alloc.id, b.alloc.id))
	})
	for i, e := range ended {
		if i >= most || now.Sub(e.at) > age {
			return ended[i:]
		}
	}
	return nil
}

// remove forgets allocations: first their state, so that a kill of the agent leaves a directory at worst.
func (a *Agent) remove(garbage []endedAlloc) (removed int, err error) {
	var errs []error
	for _, e := range garbage {
		if err := a.store.DeleteAllocation(e.alloc.id); err != nil {
			errs = append(errs, err)
			continue
		}
		last := e.alloc.snapshot()
		a.mu.Lock()
		delete(a.allocs, e.alloc.id)
		a.mu.Unlock()
		ctx, cancel := context.WithTimeout(a.ctx, closeTimeout)
		errs = append(errs, e.alloc.close(ctx), e.alloc.dir.Remove())
		cancel()
		a.feed.Publish(feed.Event{
			Topic: feed.TopicAllocation, Type: "AllocationRemoved", Key: e.alloc.id, FilterKeys: []string{e.alloc.job.ID},
			Namespace: e.alloc.job.Namespace, Allocation: last,
		})
		removed++
	}
	return removed, errors.Join(append(errs, a.forgetVersions())...)
}

// forgetVersions forgets versions of jobs that nothing refers to.
func (a *Agent) forgetVersions() error {
	type version struct {
		id string
		n  uint64
	}
	used := make(map[version]bool)
	for _, l := range a.list() {
		used[version{l.persisted.JobID, l.persisted.JobVersion}] = true
	}
	var unused []version
	a.mu.Lock()
	for id, r := range a.jobs {
		for n := range r.versions {
			v := version{id, n}
			// An allocation that was left alone may refer to one that cannot be read.
			if used[v] || r.versions[n] == nil || r.current.Current && r.current.Version == n {
				continue
			}
			unused = append(unused, v)
			delete(r.versions, n)
		}
		if len(r.versions) == 0 {
			delete(a.jobs, id)
		}
	}
	a.mu.Unlock()
	var errs []error
	for _, v := range unused {
		errs = append(errs, a.store.DeleteJob(v.id, v.n))
	}
	return errors.Join(errs...)
}

// CollectGarbage removes all ended allocations now and returns how many.
func (a *Agent) CollectGarbage() (removed int, err error) {
	if err := a.isReady(); err != nil {
		return 0, err
	}
	a.registering.Lock()
	defer a.registering.Unlock()
	removed, err = a.remove(a.endedAllocs())
	orphans, orphansErr := a.removeOrphans(0, time.Now())
	return removed + orphans, errors.Join(err, orphansErr)
}
