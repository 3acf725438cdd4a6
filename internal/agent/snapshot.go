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

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
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

// userStopped is why an allocation ends that a user has stopped.
const userStopped = "stopped by a user"

// list returns all allocations, in no order.
func (a *Agent) list() []*alloc.Alloc {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.allocs))
}

// findByID returns an allocation by its full ID, also one that is only watched; nil if it is unknown.
func (a *Agent) findByID(id string) *alloc.Alloc {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.watched[id]; w != nil {
		return w.Alloc
	}
	return a.allocs[id]
}

// find returns an allocation by its full ID. The error wraps allocation.ErrWatched if it is only watched.
func (a *Agent) find(id string) (*alloc.Alloc, error) {
	l, err := a.findShown(id)
	if err == nil && l.Watched() {
		return nil, fmt.Errorf("allocation %s: %w", allocation.ShortID(id), allocation.ErrWatched)
	}
	return l, err
}

// findShown returns an allocation by its full ID, also one that is only watched.
func (a *Agent) findShown(id string) (*alloc.Alloc, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	if l := a.findByID(id); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("allocation %q: %w", id, allocation.ErrNotFound)
}

// onTask returns what a task of an allocation returns. name may be empty if there is only one.
func onTask[T any](a *Agent, allocID, name string, do func(*alloc.Task) (T, error)) (result T, err error) {
	l, err := a.findShown(allocID)
	if err != nil {
		return result, err
	}
	t, err := l.Task(name)
	if err != nil {
		return result, err
	}
	return do(t)
}

// RestartAlloc restarts the running tasks of an allocation, or the one that is named.
func (a *Agent) RestartAlloc(id, task string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	return l.Restart(task)
}

// SignalAlloc sends a signal by name (SIGHUP) to the running tasks of an allocation, or to the one that is named.
func (a *Agent) SignalAlloc(ctx context.Context, id, task, signal string) error {
	l, err := a.find(id)
	if err != nil {
		return err
	}
	return l.Signal(ctx, task, signal)
}

// ExecTask runs a command beside a running task, as long as ctx lives. task may be empty if there is only one.
func (a *Agent) ExecTask(ctx context.Context, id, task string, o driver.ExecOptions) (driver.ExecStream, error) {
	if _, err := a.find(id); err != nil {
		return nil, err
	}
	return onTask(a, id, task, func(t *alloc.Task) (driver.ExecStream, error) { return t.Exec(ctx, o) })
}

// History returns the persisted readings of a task, oldest first. task may be empty if there is only one.
func (a *Agent) History(id, task string, q series.Query) ([]series.Point, error) {
	return onTask(a, id, task, func(t *alloc.Task) ([]series.Point, error) { return t.History(q) })
}

// Record returns the final record of a task's last ended start. The error wraps allocation.ErrNotFound if no start has
// ended.
func (a *Agent) Record(id, task string) (*record.Record, error) {
	return onTask(a, id, task, (*alloc.Task).Record)
}

// Commands returns what the ended processes of a task used: so far if it runs, and otherwise those of its last ended
// start. The error wraps allocation.ErrNotFound if that is not counted.
func (a *Agent) Commands(id, task string) (*record.Commands, error) {
	return onTask(a, id, task, (*alloc.Task).Commands)
}
