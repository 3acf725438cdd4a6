// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
)

// notPublishing says why tasks are not read.
const notPublishing = "publishing is off: set publish_allocation_metrics = true in the telemetry block and reload (SIGHUP)"

// Snapshot returns what the agent knows now, or only of some allocations by their full ids, without jobs then, for those who
// look often. Allocations that have not changed since the last one are the same values.
func (a *Agent) Snapshot(only ...string) *snapshot.Agent {
	s := &snapshot.Agent{}
	select {
	case <-a.ready:
		s.Index = a.feed.Index() // before all else: whoever waits for a later event misses nothing
		s.Node = a.node
		own := a.driver.About()
		s.Node.Drivers = map[string]node.Driver{own.Name: own}
	default:
	}
	a.mu.Lock()
	s.Config = a.config
	var allocs []*alloc
	if len(only) > 0 {
		for _, id := range only {
			if l := a.allocs[id]; l != nil {
				allocs = append(allocs, l)
			}
		}
	} else {
		s.Jobs = a.currentJobs()
		allocs = slices.Collect(maps.Values(a.allocs))
	}
	a.mu.Unlock()
	if !s.Config.Telemetry.PublishAllocationMetrics {
		s.NotPublishing = notPublishing
	}
	tasks := 0
	for _, l := range allocs {
		tasks += len(l.tasks)
	}
	s.Allocations = make([]*allocation.Allocation, 0, len(allocs))
	s.Usages = make(map[*allocation.Task]*figures.Figures, tasks)
	for _, l := range allocs {
		shown := l.snapshot()
		s.Allocations = append(s.Allocations, shown)
		for _, t := range l.tasks {
			s.Usages[shown.Tasks[t.spec.Name]] = t.usage.figures(s.NotPublishing)
		}
	}
	slices.SortFunc(s.Allocations, func(x, y *allocation.Allocation) int {
		return cmp.Or(y.CreateTime.Compare(x.CreateTime), cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID))
	})
	for _, j := range s.Jobs {
		j.Status = statusOfJob(j, s.Allocations)
	}
	return s
}

// currentJobs returns the jobs by id, without their status; a.mu is held.
func (a *Agent) currentJobs() []*snapshot.Job {
	var all []*snapshot.Job
	for _, id := range slices.Sorted(maps.Keys(a.jobs)) {
		if r := a.jobs[id]; r.current.Current {
			all = append(all, r.snapshot())
		}
	}
	return all
}

// snapshot returns a job without its status.
func (r *registered) snapshot() *snapshot.Job {
	persisted, parsed := r.current, r.versions[r.current.Version]
	if parsed == nil {
		parsed = &job.Job{ID: persisted.ID, Name: persisted.ID, Namespace: "default", Type: job.TypeService, Source: persisted.Source}
	}
	return &snapshot.Job{
		Job: parsed, ID: persisted.ID, Version: persisted.Version, Stopped: persisted.Stopped, SubmitTime: persisted.SubmitTime,
		CreateIndex: persisted.CreateIndex, ModifyIndex: persisted.ModifyIndex, Unplaced: r.unplaced,
	}
}

// job returns one job as a snapshot of everything has it.
func (a *Agent) job(id string) (*snapshot.Job, error) {
	a.mu.Lock()
	r := a.jobs[id]
	if r == nil || !r.current.Current {
		a.mu.Unlock()
		return nil, fmt.Errorf("job %q: %w", id, allocation.ErrNotFound)
	}
	j := r.snapshot()
	a.mu.Unlock()
	var own []*allocation.Allocation
	for _, l := range a.list() {
		if l.job.ID == id {
			own = append(own, l.snapshot())
		}
	}
	j.Status = statusOfJob(j, own)
	return j, nil
}

// statusOfJob returns what the allocations of a job come to together: pending, running or dead. As in Nomad, a job is running with the
// first allocation that is not over, a system job until it is stopped, and a job is pending while one of its allocations waits for a
// place, or to be replaced.
func statusOfJob(j *snapshot.Job, allocations []*allocation.Allocation) string {
	status := "dead"
	switch {
	case j.Stopped:
	case j.Job.Type == job.TypeSystem:
		return "running"
	case len(j.Unplaced) > 0:
		status = "pending"
	}
	for _, l := range allocations {
		switch {
		case l.JobID != j.ID:
		case !l.ClientStatus.Ended():
			return "running"
		case !l.Rescheduled.IsZero() && !j.Stopped && l.JobVersion == j.Version:
			status = "pending"
		}
	}
	return status
}

// ended is called when an allocation has ended.
func (a *Agent) ended(l *alloc) {
	j, err := a.job(l.job.ID)
	if err == nil && j.Status == "dead" {
		a.feed.Publish(feed.Event{Topic: feed.TopicJob, Type: feed.AllocationUpdated, Key: l.job.ID, Namespace: l.job.Namespace})
	}
	a.retryPlacement()
}

// History returns the persisted readings of a task, oldest first. name may be empty if there is only one task.
func (a *Agent) History(allocID, name string, q series.Query) ([]series.Point, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, err
	}
	return t.usage.history.Points(q)
}

// Record returns the final record of a task's last ended start. The error wraps allocation.ErrNotFound if no start has
// ended.
func (a *Agent) Record(allocID, name string) (*record.Record, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, err
	}
	r, err := a.store.Record(allocID, t.spec.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("final record of task %s: %w", t.spec.Name, allocation.ErrNotFound)
	}
	return r, err
}

// Commands returns what the ended processes of a task used: so far if it runs, and otherwise those of its last ended start. The error
// wraps allocation.ErrNotFound if that is not counted.
func (a *Agent) Commands(allocID, name string) (*record.Commands, error) {
	t, err := a.findTask(allocID, name)
	if err != nil {
		return nil, err
	}
	c, err := t.commands()
	if c != nil || err != nil {
		return c, err
	}
	r, err := a.Record(allocID, name)
	switch {
	case errors.Is(err, allocation.ErrNotFound):
		return nil, fmt.Errorf("commands of task %s: no start of it has ended, and driver %s does not count ended processes: %w", t.spec.Name, t.spec.Driver, allocation.ErrNotFound)
	case err != nil:
		return nil, err
	case r.Commands == nil:
		return nil, fmt.Errorf("commands of task %s: its record has none: %w", t.spec.Name, allocation.ErrNotFound)
	}
	return r.Commands, nil
}

// Feed returns the agent's events. It is called after Ready.
func (a *Agent) Feed() *feed.Feed { return a.feed }
