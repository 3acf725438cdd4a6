// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/removal"
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
	a.collecting.Lock()
	defer a.collecting.Unlock()
	a.registering.Lock() // nothing refers yet to an allocation or a version that is being registered
	c, due := a.current().Client, a.endedAllocs()
	age := c.GCAge
	if all {
		age = 0
	} else {
		due = garbage(due, age, c.GCMaxAllocs)
	}
	orphans, err := a.orphanDirs(age, a.host.Now())
	a.registering.Unlock()
	errs := []error{err}
	for _, e := range due {
		err := a.remove(e.alloc)
		switch {
		case err == nil:
			removed++
		case all || !errors.Is(err, errNotRemoved): // clear has said so
			errs = append(errs, err)
		}
	}
	for _, id := range orphans {
		if _, err := a.clear(datadir.In(a.host.Dir, id), id, ""); err == nil {
			removed++
		}
	}
	a.registering.Lock()
	defer a.registering.Unlock()
	return removed, errors.Join(append(errs, a.forgetVersions())...)
}

// removalLimit bounds the removal of one allocation, in which a task may have left millions of files, or of which a
// process may still write more.
const removalLimit = time.Minute

// clear removes the directory of an allocation. What cannot be removed is said in the log once, counted and shown, and
// is tried again with the next collection. reason is the error without paths.
func (a *Agent) clear(dir datadir.Allocation, id, jobID string) (reason string, err error) {
	ctx, cancel := context.WithTimeout(a.host.Context, removalLimit)
	defer cancel()
	err = dir.Remove(ctx)
	if err != nil {
		reason = err.Error()
		if remains, ok := errors.AsType[*removal.Remains](err); ok {
			reason = remains.Reason()
		}
	}
	a.mu.Lock()
	before := a.unremoved[id]
	if err == nil {
		delete(a.unremoved, id)
	} else {
		a.unremoved[id] = reason
	}
	a.mu.Unlock()
	if err != nil && before != reason {
		a.log.Warn("an ended allocation cannot be removed; trying again", "alloc_id", id, "job", jobID, "error", err)
		a.host.Counts.Fail("gc")
	}
	return reason, err
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
			age := now.Since(l.Snapshot().Finished())
			if l.Persisted().NotRemoved != "" {
				age = math.MaxInt64 // each collection tries again
			}
			ended = append(ended, endedAlloc{l, age})
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

// errNotRemoved is wrapped for allocations that stay in the list because their directory does.
var errNotRemoved = errors.New("collect garbage")

// remove removes the directory of an allocation and then forgets it: what cannot be removed stays visible.
func (a *Agent) remove(l *alloc.Alloc) error {
	closed := alloc.Close(a.host.Context, l)
	if reason, err := a.clear(l.Dir, l.ID, l.JobID); err != nil {
		if l.NotRemoved(reason) {
			l.Publish(snapshot.AllocationUpdated)
		}
		return fmt.Errorf("%w: %w", errNotRemoved, err)
	}
	last := l.Snapshot()
	if err := a.host.Store.DeleteAllocation(l.ID); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.allocs, l.ID)
	a.mu.Unlock()
	a.host.Feed.Publish(snapshot.Event{
		Topic: snapshot.TopicAllocation, Type: "AllocationRemoved", Key: l.ID, FilterKeys: []string{l.JobID},
		Namespace: l.Namespace, Allocation: last,
	})
	return closed
}

// forgetVersions forgets versions of jobs that nothing refers to.
func (a *Agent) forgetVersions() error {
	used := make(map[jobVersion]bool)
	for _, l := range a.list() {
		own := l.Persisted()
		used[jobVersion{own.JobID, own.JobVersion}] = true
	}
	var unused []jobVersion
	a.mu.Lock()
	for id, r := range a.jobs {
		for n := range r.versions {
			v := jobVersion{id, n}
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

// orphanDirs returns the directories of allocations that the state does not know and that are old: the state was
// damaged.
func (a *Agent) orphanDirs(age time.Duration, now hook.Instant) ([]string, error) {
	entries, err := os.ReadDir(a.host.Dir)
	if err != nil {
		return nil, fmt.Errorf("list allocation directories: %w", err)
	}
	orphans := make(map[string]bool)
	for _, entry := range entries {
		if entry.IsDir() && allocation.IsID(entry.Name()) {
			orphans[entry.Name()] = true
		}
	}
	for _, l := range a.list() {
		delete(orphans, l.ID)
	}
	for _, w := range a.watches() {
		delete(orphans, w.ID)
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
	maps.DeleteFunc(orphans, func(id string, _ bool) bool { return age > 0 && a.orphanAge(id, now) < age })
	return slices.Sorted(maps.Keys(orphans)), nil
}

// orphanAge returns how long the directory of an allocation has been known as an orphan: a file in it says since when,
// as the time of the directory itself is of a wall clock that may have been set.
func (a *Agent) orphanAge(id string, now hook.Instant) time.Duration {
	var since hook.Instant
	path := filepath.Join(a.host.Dir, id, "orphan.json")
	text, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(text, &since) == nil && !since.IsZero() {
		return now.Since(since)
	}
	if text, err = json.Marshal(now); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		a.log.Debug("mark orphaned directory", "alloc_id", id, "error", err)
	}
	return 0
}
