// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// collect removes ended allocations that are old, or too many, until the agent ends.
func (a *Agent) collect() {
	for a.pause(max(time.Second, a.current().Client.GCInterval)) {
		if _, err := a.removeGarbage(false); err != nil {
			a.log.Error("remove ended allocations", "error", err)
			a.host.Counts.Fail("gc")
		}
	}
}

// CollectGarbage removes all ended allocations now and returns how many.
func (a *Agent) CollectGarbage() (removed int, err error) {
	if err := a.isReady(); err != nil {
		return 0, err
	}
	return a.removeGarbage(true)
}

// removeGarbage removes ended allocations that are due, or all, with versions of jobs that nothing refers to and
// orphaned directories.
func (a *Agent) removeGarbage(all bool) (removed int, err error) {
	a.registering.Lock() // nothing refers yet to a version that is being registered
	defer a.registering.Unlock()
	c, due := a.current().Client, a.endedAllocs()
	age := c.GCAge
	if all {
		age = 0
	} else {
		due = garbage(due, age, c.GCMaxAllocs)
	}
	var errs []error
	for _, e := range due {
		gone, err := a.remove(e.alloc)
		if errs = append(errs, err); gone {
			removed++
		}
	}
	errs = append(errs, a.forgetVersions())
	orphans, err := a.removeOrphans(age, time.Now())
	return removed + orphans, errors.Join(append(errs, err)...)
}

// endedAlloc is an allocation that has ended, and that no other is to replace.
type endedAlloc struct {
	alloc *alloc.Alloc
	age   time.Duration
}

func (a *Agent) endedAllocs() []endedAlloc {
	var ended []endedAlloc
	now := a.host.Now()
	for _, l := range a.list() {
		// Others find by their predecessors what they have to wait for.
		if l.Ended() && !a.toBeReplaced(l) && l.Predecessor() == nil {
			ended = append(ended, endedAlloc{l, now.Since(l.Snapshot().Finished())})
		}
	}
	return ended
}

// garbage returns the ended allocations that are older than age, and of the others the oldest beyond a number.
func garbage(ended []endedAlloc, age time.Duration, most int) []endedAlloc {
	slices.SortFunc(ended, func(x, y endedAlloc) int {
		return cmp.Or(cmp.Compare(x.age, y.age), cmp.Compare(x.alloc.ID, y.alloc.ID))
	})
	for i, e := range ended {
		if i >= most || e.age > age {
			return ended[i:]
		}
	}
	return nil
}

// remove forgets an allocation: first its state, so that a kill of the agent leaves no more than a directory.
func (a *Agent) remove(l *alloc.Alloc) (gone bool, err error) {
	if err := a.host.Store.DeleteAllocation(l.ID); err != nil {
		return false, err
	}
	last := l.Snapshot()
	a.mu.Lock()
	delete(a.allocs, l.ID)
	a.mu.Unlock()
	err = errors.Join(alloc.Close(a.host.Context, l), l.Dir.Remove())
	a.host.Feed.Publish(snapshot.Event{
		Topic: snapshot.TopicAllocation, Type: "AllocationRemoved", Key: l.ID, FilterKeys: []string{l.Job.ID},
		Namespace: l.Job.Namespace, Allocation: last,
	})
	return true, err
}

// forgetVersions forgets versions of jobs that nothing refers to.
func (a *Agent) forgetVersions() error {
	type version struct {
		id string
		n  uint64
	}
	used := make(map[version]bool)
	for _, l := range a.list() {
		own := l.Persisted()
		used[version{own.JobID, own.JobVersion}] = true
	}
	var unused []version
	a.mu.Lock()
	for id, r := range a.jobs {
		for n := range r.versions {
			v := version{id, n}
			if used[v] || r.current.Current && r.current.Version == n {
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
		errs = append(errs, a.host.Store.DeleteJob(v.id, v.n))
	}
	return errors.Join(errs...)
}

// orphanDirs returns the directories of allocations that the state does not know, with the time of their creation:
// the state was damaged, or a removal was interrupted.
func (a *Agent) orphanDirs() (map[string]time.Time, error) {
	entries, err := os.ReadDir(a.host.Dir)
	if err != nil {
		return nil, fmt.Errorf("list allocation directories: %w", err)
	}
	orphans := make(map[string]time.Time)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.IsDir() && allocation.IsID(entry.Name()) {
			orphans[entry.Name()] = info.ModTime()
		}
	}
	for _, l := range a.list() {
		delete(orphans, l.ID)
	}
	if len(orphans) == 0 {
		return nil, nil
	}
	// The state also has allocations that could not be restored, and tasks of lost ones.
	persisted, err := a.host.Store.Allocations()
	tasks, tasksErr := a.host.Store.Tasks()
	if err := errors.Join(err, tasksErr); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	for _, own := range persisted {
		delete(orphans, own.ID)
	}
	for id := range tasks {
		delete(orphans, id)
	}
	return orphans, nil
}

// removeOrphans removes the directories of allocations that the state does not know and that are old.
func (a *Agent) removeOrphans(age time.Duration, now time.Time) (removed int, err error) {
	orphans, err := a.orphanDirs()
	errs := []error{err}
	for id, made := range orphans {
		if now.Sub(made) < age {
			continue
		}
		if err := datadir.In(a.host.Dir, id).Remove(); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
