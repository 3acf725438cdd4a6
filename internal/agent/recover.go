// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/registry"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
	"github.com/tachograph/tacho/internal/version"
)

func newNodeID() string { return allocation.NewID() }

func buildVersion() string { return version.String() }

var errUnreadable = errors.New("invalid job in state")

// leftovers are what an earlier run of the agent persisted.
type leftovers struct {
	allocs []*state.Allocation
	tasks  map[string]map[string]*state.Task
}

// load reads the state, and the jobs as far as they can be read.
func (a *Agent) load() (*leftovers, error) {
	versions, err := a.store.Jobs()
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	for _, v := range versions {
		j, err := specOf(v)
		if err != nil {
			a.log.Error("read job of an earlier run", "job", v.ID, "version", v.Version, "error", err)
			a.counts.fail("recovery")
		}
		a.remember(*v, j)
	}
	persisted := new(leftovers)
	if persisted.allocs, err = a.store.Allocations(); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if persisted.tasks, err = a.store.Tasks(); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return persisted, nil
}

// specOf returns what a version of a job came to when it was registered. Only versions that an earlier tacho persisted are
// read from their source.
func specOf(v *state.Job) (*job.Job, error) {
	if v.Spec == nil {
		return job.Parse(v.Source)
	}
	v.Spec.Source = v.Source
	for _, g := range v.Spec.Groups {
		g.Digest = v.Digests[g.Name]
	}
	return v.Spec, nil
}

// adoptLost adds to what is persisted what a damaged state has lost and executors still have. It returns the tasks whose job is
// lost: they run on without supervision.
func (a *Agent) adoptLost(persisted *leftovers) (spared []*driver.TaskHandle) {
	known := make(map[string]bool)
	for _, own := range persisted.allocs {
		known[own.ID] = true
	}
	if a.store.Damage == nil && len(persisted.lost(known)) == 0 {
		return nil
	}
	found, err := a.driver.StartedTasks()
	if err != nil {
		a.log.Error("find started tasks", "error", err)
		a.counts.fail("recovery")
	}
	for _, config := range found {
		t := persisted.tasks[config.AllocID][config.Name]
		if a.store.Damage == nil && (t == nil || known[config.AllocID]) {
			continue
		}
		if persisted.tasks[config.AllocID] == nil {
			persisted.tasks[config.AllocID] = make(map[string]*state.Task)
		}
		if t == nil {
			t = &state.Task{Starting: config}
			persisted.tasks[config.AllocID][config.Name] = t
			a.persist(state.ChangeTask(config.AllocID, config.Name, t))
		}
		if known[config.AllocID] {
			continue
		}
		own := a.lostAllocation(config)
		if own == nil {
			a.log.Error("job of a running task is lost; the task keeps running without supervision, until tacho executors kill ends it",
				"alloc_id", config.AllocID, "job", config.JobID, "task", config.Name)
			a.counts.fail("recovery")
			spared = append(spared, &driver.TaskHandle{Config: config})
			continue
		}
		known[own.ID] = true
		persisted.allocs = append(persisted.allocs, own)
		a.persist(state.ChangeAllocation(own))
	}
	for _, id := range persisted.lost(known) {
		if !slices.ContainsFunc(found, func(config *driver.TaskConfig) bool { return config.AllocID == id }) {
			if err := a.store.DeleteAllocation(id); err != nil { // tasks without supervision that have ended
				a.log.Error("delete state of lost tasks", "alloc_id", id, "error", err)
			}
		}
	}
	return spared
}

// lost returns the ids of the allocations that have tasks and are not known.
func (l *leftovers) lost(known map[string]bool) []string {
	ids := slices.Collect(maps.Keys(l.tasks))
	return slices.DeleteFunc(ids, func(id string) bool { return known[id] })
}

// lostAllocation makes the record of an allocation again from what one of its tasks was started with; nil if its job is not
// known. It has no digest, and is replaced when the job is registered again: which version it is of is lost.
func (a *Agent) lostAllocation(config *driver.TaskConfig) *state.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.jobs[config.JobID]
	if r == nil {
		return nil
	}
	j := r.versions[r.current.Version]
	if j == nil {
		return nil
	}
	g := j.Group(config.TaskGroupName)
	if g == nil || g.Task(config.Name) == nil {
		return nil
	}
	index, err := strconv.Atoi(config.Env["NOMAD_ALLOC_INDEX"])
	if err != nil {
		return nil
	}
	own := newAllocation(j, vacancy{group: g, index: index}, r.current.Version, max(1, r.current.CreateIndex))
	own.ID, own.Digest = config.AllocID, ""
	return &own
}

// recover makes the allocations of an earlier run again, and recovers their running tasks. It returns the handles
// of tasks that it could not make again or recover: they run on, for an agent that can read their jobs, and for the
// next try.
func (a *Agent) recover(ctx context.Context, persisted *leftovers) (spared []*driver.TaskHandle) {
	for _, own := range persisted.allocs {
		j, err := a.version(own.JobID, own.JobVersion), errUnreadable
		var l *alloc
		if j != nil {
			l, err = a.newAlloc(*own, j, persisted.tasks[own.ID])
		}
		if err != nil {
			a.log.Error("allocation ignored; its tasks keep running without supervision", "alloc_id", own.ID, "job", own.JobID, "error", err)
			a.counts.fail("recovery")
			for _, t := range persisted.tasks[own.ID] {
				switch {
				case t.Handle != nil:
					spared = append(spared, t.Handle)
				case t.Starting != nil:
					spared = append(spared, &driver.TaskHandle{Config: t.Starting})
				}
			}
			continue
		}
		for _, t := range l.tasks {
			failpoint.At("agent.recover.task")
			h := a.recoverTask(ctx, t)
			if h != nil && h.missed != nil {
				spared = append(spared, h.missed)
			}
			t.prepare(h)
		}
		a.mu.Lock()
		a.allocs[l.id] = l
		a.mu.Unlock()
	}
	return spared
}

// finishTimeout bounds the wait for a plugin that does not come back.
const finishTimeout = 10 * time.Second

// recoverTask recovers a task that an earlier run started; nil where it does not run any more.
func (a *Agent) recoverTask(ctx context.Context, t *task) *handle {
	if t.persisted.Handle == nil && t.persisted.Starting == nil {
		return nil
	}
	if err := registry.Check(t.spec.Driver); err != nil { // persisted by an earlier tacho, which had plugins
		t.log.Error("recover task", "error", err)
		t.agent.counts.fail("recovery")
		return nil
	}
	if t.persisted.Starting != nil {
		a.adopt(ctx, t)
	}
	persisted := t.persisted.Handle
	if persisted == nil {
		return nil
	}
	h := &handle{id: persisted.Config.ID, driver: a.driver, usage: t.usage}
	if err := a.driver.RecoverTask(ctx, persisted); err != nil {
		t.log.Error("recover task", "error", err)
		t.agent.counts.fail("recovery")
		if !errors.Is(err, driver.ErrUnavailable) {
			a.destroy(ctx, t, h) // it must not run beside its next start
			return nil
		}
		h.missed = persisted
	}
	if t.persisted.Ended {
		a.finishEnd(ctx, t, h)
		return nil
	}
	// The agent may have been killed between keeping the handle and learning that the task had started.
	if t.persisted.State.Phase != hook.PhaseRunning {
		t.persisted.State.Phase, t.persisted.State.Exit = hook.PhaseRunning, nil
		if status, err := a.driver.InspectTask(ctx, h.id); err == nil {
			t.persisted.State.StartedAt = status.StartedAt
		}
		t.persisted.Events = appendEvent(t.persisted.Events, allocation.Event{
			Type: hook.EventStarted, Time: t.persisted.State.StartedAt, Message: "task started; the agent was killed meanwhile",
		})
	}
	return h
}

// adopt finds a task that was started by an agent which was killed before it had persisted the handle.
func (a *Agent) adopt(ctx context.Context, t *task) {
	config := t.persisted.Starting
	h, err := a.driver.AdoptTask(ctx, config)
	if err != nil {
		t.notStarted()
		if !errors.Is(err, driver.ErrTaskNotFound) {
			t.log.Error("adopt task; it is started again", "error", err)
			a.counts.fail("recovery")
		}
		return
	}
	t.log.Info("adopted a task that was being started when the agent was killed", "executor", config.ID)
	t.started(h, t.inspect(ctx, config.ID))
}

// finishEnd does what was left to do for a task whose end was persisted: its record, and its end in the driver.
func (a *Agent) finishEnd(ctx context.Context, t *task, h *handle) {
	if exit := t.persisted.State.Exit; exit != nil {
		if final, err := t.completeRecord(*exit, t.persisted); err == nil && final != nil {
			a.persist(state.ChangeRecord(t.alloc.id, t.spec.Name, final))
		}
	}
	a.destroy(ctx, t, h)
}

func (a *Agent) destroy(ctx context.Context, t *task, h *handle) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	if err := h.Destroy(ctx); err != nil {
		t.log.Error("destroy exited task", "error", err)
	}
}

// onDriverEvent passes a driver's event on to its task.
func (a *Agent) onDriverEvent(e *driver.Event) {
	a.mu.Lock()
	l := a.allocs[e.AllocID]
	a.mu.Unlock()
	if l == nil {
		return
	}
	if t, err := l.task(e.TaskName); err == nil {
		t.onDriverEvent(e)
	}
}

func (a *Agent) driverChanged(d node.Driver) {
	a.log.Debug("driver changed", "driver", d.Name, "healthy", d.Healthy, "reason", d.Reason)
	a.feed.Publish(feed.Event{Topic: feed.TopicNode, Type: "NodeStreamEvent", Key: a.node.ID})
	if a.isReady() == nil { // else what waits is placed when everything is recovered
		a.retryPlacement()
	}
}
