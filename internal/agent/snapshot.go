// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
)

// notPublishing says why tasks are not read.
const notPublishing = "publishing is off: " +
	"set publish_allocation_metrics = true in the telemetry block and reload (SIGHUP)"

// Snapshot returns what the agent knows now, or, for callers that look often, only some allocations by their full
// IDs, and no jobs. Allocations that have not changed since the last snapshot are the same values.
func (a *Agent) Snapshot(only ...string) *snapshot.Agent {
	s := &snapshot.Agent{}
	select {
	case <-a.ready:
		s.Index = a.host.Feed.Index() // before all else: who waits for a later event misses nothing
		s.Node = *a.host.NodeNow()
	default:
	}
	var allocs []*alloc.Alloc
	for _, id := range only {
		if l := a.findByID(id); l != nil {
			allocs = append(allocs, l)
		}
	}
	a.mu.Lock()
	s.Config, s.NotRemoved = a.config, len(a.unremoved)
	if len(only) == 0 {
		s.Jobs = a.currentJobs()
		allocs = slices.Collect(maps.Values(a.allocs))
		for _, w := range a.watched {
			allocs = append(allocs, w.Alloc)
		}
	}
	a.mu.Unlock()
	if !s.Config.Telemetry.PublishAllocationMetrics {
		s.NotPublishing = notPublishing
	}
	s.Allocations = make([]*allocation.Allocation, 0, len(allocs))
	s.Usages = make(map[*allocation.Task]*figures.Figures, len(allocs))
	for _, l := range allocs {
		shown := l.Snapshot()
		s.Allocations = append(s.Allocations, shown)
		for name, f := range l.Figures(s.NotPublishing) {
			s.Usages[shown.Tasks[name]] = f
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

// currentJobs returns the jobs by ID, without their status; a.mu is held.
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
	own := r.current
	return &snapshot.Job{
		Job: own.Spec, ID: own.ID, Version: own.Version, Stopped: own.Stopped, SubmitTime: own.SubmitTime,
		CreateIndex: own.CreateIndex, ModifyIndex: own.ModifyIndex, Unplaced: r.unplaced,
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
		if l.JobID == id {
			own = append(own, l.Snapshot())
		}
	}
	j.Status = statusOfJob(j, own)
	return j, nil
}

// statusOfJob returns what the allocations of a job come to together: pending, running or dead. A job is running with
// the first allocation that is not over, and pending while one of its allocations waits for a place, or to be replaced.
// In Nomad a system job is running until it is stopped; here it needs an allocation, too.
func statusOfJob(j *snapshot.Job, allocations []*allocation.Allocation) string {
	status := "dead"
	if !j.Stopped && len(j.Unplaced) > 0 {
		status = "pending"
	}
	for _, l := range allocations {
		switch {
		case l.JobID != j.ID:
		case !l.Over:
			return "running"
		case !l.Rescheduled.IsZero() && l.Next == "" && !j.Stopped && l.JobVersion == j.Version:
			status = "pending"
		}
	}
	return status
}

// ended is called when an allocation has ended.
func (a *Agent) ended(l *alloc.Alloc) {
	if j, err := a.job(l.JobID); err == nil && j.Status == "dead" {
		a.host.Feed.Publish(snapshot.Event{
			Topic: snapshot.TopicJob, Type: snapshot.AllocationUpdated, Key: l.JobID, Namespace: l.Namespace,
		})
	}
	a.retryPlacement()
}

// Feed returns the agent's events. It is called after Ready.
func (a *Agent) Feed() *snapshot.Feed { return a.host.Feed }

// NodeStats reads what the machine uses.
func (a *Agent) NodeStats(ctx context.Context) (*node.Stats, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	return a.meter.Read(ctx, a.current().DataDir, a.host.Node.Resources), nil
}

// Cost returns what the agent costs.
func (a *Agent) Cost() snapshot.Cost {
	counts := &a.host.Counts
	c := snapshot.Cost{
		Goroutines: runtime.NumGoroutine(), Uptime: time.Since(a.started), Samples: counts.Samples.Load(),
		Backlogged: counts.Backlogged.Load(), HistoryDropped: a.host.History.Dropped(), Errors: counts.Failures(),
	}
	self, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		return c
	}
	if times, err := self.Times(); err == nil {
		c.CPUSeconds = times.User + times.System
	}
	if memory, err := self.MemoryInfo(); err == nil {
		c.RSSBytes = int64(memory.RSS)
	}
	return c
}
