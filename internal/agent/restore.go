// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/state"
)

var errNoJob = errors.New("the state does not have its job")

// leftovers are what an earlier run of the agent persisted.
type leftovers struct {
	jobs   map[jobVersion]*job.Job
	allocs []*state.Allocation
	tasks  map[string]map[string]*state.Task
}

// load reads the state, and the jobs as far as they can be read.
func (a *Agent) load() (*leftovers, error) {
	store := a.host.Store
	versions, err := store.Jobs()
	allocs, allocsErr := store.Allocations()
	tasks, tasksErr := store.Tasks()
	if err := errors.Join(err, allocsErr, tasksErr); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	specs := make(map[jobVersion]*job.Job, len(versions))
	for _, v := range versions {
		specs[jobVersion{v.ID, v.Version}] = v.Spec
		a.remember(*v)
	}
	return &leftovers{specs, allocs, tasks}, nil
}

// recoveries is how many allocations are recovered at a time: one whose executor does not answer takes seconds.
const recoveries = 32

// restore makes the allocations of an earlier run again, and recovers their running tasks. It returns the handles of
// tasks that could not be restored or recovered: they run on, for an agent that can read their jobs, and for the next
// attempt.
func (a *Agent) restore(ctx context.Context, persisted *leftovers) (spared []*driver.TaskHandle) {
	publish := a.current().Telemetry.PublishAllocationMetrics
	a.left.Store(int64(len(persisted.allocs)))
	var (
		mu         sync.Mutex // guards spared
		recovering sync.WaitGroup
		places     = make(chan struct{}, recoveries)
	)
	for _, own := range persisted.allocs {
		var l *alloc.Alloc
		err := errNoJob
		if spec := persisted.jobs[jobVersion{own.JobID, own.JobVersion}]; spec != nil {
			l, err = alloc.New(a.host, *own, spec, persisted.tasks[own.ID])
		}
		if err != nil {
			a.log.Error("allocation ignored; its tasks keep running without supervision",
				"alloc_id", own.ID, "job", own.JobID, "error", err)
			a.host.Counts.Fail("recovery")
			for _, t := range persisted.tasks[own.ID] {
				mu.Lock()
				switch {
				case t.Handle != nil:
					spared = append(spared, t.Handle)
				case t.Starting != nil:
					spared = append(spared, &driver.TaskHandle{Config: t.Starting})
				}
				mu.Unlock()
			}
			continue
		}
		places <- struct{}{}
		recovering.Go(func() {
			left := l.Recover(ctx, publish)
			mu.Lock()
			spared = append(spared, left...)
			mu.Unlock()
			a.mu.Lock()
			a.allocs[l.ID] = l
			a.mu.Unlock()
			a.recovered.Add(1)
			<-places
		})
	}
	recovering.Wait()
	return spared
}

// adoptLost adds to what is persisted what a damaged state has lost and executors still have. It returns the tasks
// whose job is lost: they run on without supervision.
func (a *Agent) adoptLost(persisted *leftovers) (spared []*driver.TaskHandle) {
	known := make(map[string]bool)
	for _, own := range persisted.allocs {
		known[own.ID] = true
	}
	damaged := a.host.Store.Damage != nil
	if !damaged && len(persisted.lost(known)) == 0 {
		return nil
	}
	found, err := a.host.Driver.StartedTasks()
	if err != nil {
		a.log.Error("find started tasks", "error", err)
		a.host.Counts.Fail("recovery")
	}
	for _, config := range found {
		t := persisted.tasks[config.AllocID][config.Name]
		if !damaged && (t == nil || known[config.AllocID]) {
			continue
		}
		if t == nil {
			if persisted.tasks[config.AllocID] == nil {
				persisted.tasks[config.AllocID] = make(map[string]*state.Task)
			}
			t = &state.Task{Starting: config}
			persisted.tasks[config.AllocID][config.Name] = t
			a.host.Persist(state.ChangeTask(config.AllocID, config.Name, t))
		}
		if known[config.AllocID] {
			continue
		}
		own := a.lostAllocation(config)
		if own == nil {
			a.log.Error("job of a running task is lost; the task keeps running without supervision, "+
				"until tacho executors kill ends it",
				"alloc_id", config.AllocID, "job", config.JobID, "task", config.Name)
			a.host.Counts.Fail("recovery")
			spared = append(spared, &driver.TaskHandle{Config: config})
			continue
		}
		known[own.ID] = true
		persisted.allocs = append(persisted.allocs, own)
		a.host.Persist(state.ChangeAllocation(own))
	}
	for _, id := range persisted.lost(known) {
		if !slices.ContainsFunc(found, func(config *driver.TaskConfig) bool { return config.AllocID == id }) {
			if err := a.host.Store.DeleteAllocation(id); err != nil { // tasks without supervision that have ended
				a.log.Error("delete state of lost tasks", "alloc_id", id, "error", err)
			}
		}
	}
	return spared
}

// lost returns the IDs of the allocations that have tasks and are not known.
func (l *leftovers) lost(known map[string]bool) []string {
	ids := slices.Collect(maps.Keys(l.tasks))
	return slices.DeleteFunc(ids, func(id string) bool { return known[id] })
}

// lostAllocation makes the record of an allocation again from what one of its tasks was started with; nil if its job
// is not known. It has no digest, and is replaced when the job is registered again: its version is lost.
func (a *Agent) lostAllocation(config *driver.TaskConfig) *state.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.jobs[config.JobID]
	if r == nil {
		return nil
	}
	g := r.current.Spec.Group(config.TaskGroupName)
	index, err := strconv.Atoi(config.Env["NOMAD_ALLOC_INDEX"])
	if err != nil || g == nil || g.Task(config.Name) == nil {
		return nil
	}
	own := newAllocation(r.current.Spec, vacancy{group: g, index: index}, r.current.Version, max(1, r.current.CreateIndex))
	own.ID, own.Digest = config.AllocID, ""
	return &own
}

// resume stops what is left of jobs that were stopped before the agent was killed, and places what waits for a place.
func (a *Agent) resume() {
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	var stopped []string
	for id, r := range a.jobs {
		if r.current.Stopped || !r.current.Current {
			stopped = append(stopped, id)
		}
	}
	a.mu.Unlock()
	for _, id := range stopped {
		a.stopAllocs(id)
	}
	a.retryPlacement() // the node may be another than it was
}
