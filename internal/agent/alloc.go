// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/allocdir"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// alloc runs one allocation: it launches and ends its tasks in the order of their lifecycle.
type alloc struct {
	agent *Agent
	id    string
	job   *job.Job
	group *job.Group
	dir   allocdir.Allocation
	log   hclog.Logger
	tasks []*task // in the order of the job file

	// saving keeps what is stored in the order in which it happened.
	saving sync.Mutex

	mu        sync.Mutex // guards following
	persisted state.Allocation
	stopping  string // why all tasks must end; empty where they must not
	done      chan struct{}
	// rescheduled is when another allocation takes the place of this one, which has failed; zero if none will.
	rescheduled time.Time
	shown       *allocation.Allocation // the newest snapshot; nil if something has changed since
	changed     bool                   // since the last decision
	resting     bool                   // nobody decides, until something changes
}

// newAlloc makes an allocation from what is persisted of it, and of its tasks by name.
func (a *Agent) newAlloc(persisted state.Allocation, j *job.Job, tasks map[string]*state.Task) (*alloc, error) {
	group := j.Group(persisted.Group)
	if group == nil {
		return nil, fmt.Errorf("allocation %s: job %s has no group %s", persisted.ID, j.ID, persisted.Group)
	}
	l := &alloc{
		agent: a, id: persisted.ID, job: j, group: group, dir: allocdir.In(a.allocDir(), persisted.ID),
		log: a.log.With("alloc_id", persisted.ID, "job", j.ID), persisted: persisted, done: make(chan struct{}), changed: true,
	}
	if persisted.Desired == allocation.DesiredStop {
		l.stopping = cmp.Or(persisted.Description, "it was stopped")
	}
	for _, spec := range group.Tasks {
		var own state.Task
		if tasks[spec.Name] != nil {
			own = *tasks[spec.Name]
		}
		l.tasks = append(l.tasks, l.newTask(spec, own))
	}
	return l, nil
}

// close closes the allocation's files. On a disk that hangs it returns when ctx is done.
func (a *alloc) close(ctx context.Context) error {
	errs := make([]error, 0, len(a.tasks))
	for _, t := range a.tasks {
		errs = append(errs, t.usage.history.Close(ctx))
	}
	return errors.Join(errs...)
}

func (a *alloc) name() string {
	return fmt.Sprintf("%s.%s[%d]", a.job.ID, a.group.Name, a.persisted.Index)
}

// closeAllocs closes the files of allocations.
func closeAllocs(ctx context.Context, allocs []*alloc) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	errs := make([]error, 0, len(allocs))
	for _, l := range allocs {
		errs = append(errs, l.close(ctx))
	}
	return errors.Join(errs...)
}

// task returns a task by its name, or the only one where no name is given.
func (a *alloc) task(name string) (*task, error) {
	if name == "" && len(a.tasks) == 1 {
		return a.tasks[0], nil
	}
	for _, t := range a.tasks {
		if t.spec.Name == name {
			return t, nil
		}
	}
	names := make([]string, 0, len(a.tasks))
	for _, t := range a.tasks {
		names = append(names, t.spec.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("allocation %s has several tasks; name one of %s: %w", allocation.ShortID(a.id), strings.Join(names, ", "), allocation.ErrNotFound)
	}
	return nil, allocation.NoTask(a.id, name, names)
}

// begin runs the allocation to its end, or until the agent's: its tasks run on then.
func (a *alloc) begin() {
	if a.dead() { // it was when it was loaded
		a.rescheduleAt() // before it counts as ended, as in finish
		close(a.done)
		a.agent.reschedule(a)
		return
	}
	if a.predecessor() != nil {
		a.agent.work.Go(a.awaitPredecessors)
	}
	a.decide()
}

// decide takes steps for as long as anything changes. An allocation in which nothing happens has no goroutine: an agent has hundreds.
func (a *alloc) decide() {
	for a.isChanged() && a.agent.ctx.Err() == nil {
		if a.awaitsPredecessor() {
			continue
		}
		next := plan(a.progress(), a.stopReason())
		if next.done {
			a.finish()
			return
		}
		for _, name := range next.skip {
			a.launch(name, next.reason)
		}
		for _, name := range next.launch {
			a.launch(name, "")
		}
		for _, name := range next.stop {
			if t, err := a.task(name); err == nil {
				t.runner.Stop(next.reason)
			}
		}
	}
}

// isChanged reports whether anything has changed since the last call. If not, the next change has another decision made.
func (a *alloc) isChanged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.changed
	a.changed, a.resting = false, !changed
	return changed
}

// wake lets the allocation decide what follows from a change.
func (a *alloc) wake() {
	a.mu.Lock()
	rested := a.resting
	a.changed, a.resting = true, false
	a.mu.Unlock()
	if rested {
		a.agent.work.Go(a.decide)
	}
}

// predecessor returns the nearest allocation that has not ended among those that this one replaces, one after the other; nil if all have.
func (a *alloc) predecessor() *alloc {
	a.agent.mu.Lock()
	defer a.agent.mu.Unlock()
	for l := a.agent.allocs[a.persisted.Previous]; l != nil; l = a.agent.allocs[l.persisted.Previous] {
		select {
		case <-l.done:
		default:
			return l
		}
	}
	return nil
}

// awaitPredecessors wakes the allocation when all those that it replaces have ended.
func (a *alloc) awaitPredecessors() {
	for l := a.predecessor(); l != nil; l = a.predecessor() {
		select {
		case <-l.done:
		case <-a.agent.ctx.Done():
			return
		}
	}
	a.wake()
}

// awaitsPredecessor reports whether an allocation that this one replaces must end first, as with Nomad's clients: both have the same ports
// and cores. One that has not begun itself may have replaced another that has. The wait is over once a task of this one has begun, or this
// one is stopped.
func (a *alloc) awaitsPredecessor() bool {
	return a.stopReason() == "" && a.predecessor() != nil &&
		!slices.ContainsFunc(a.progress(), func(p progress) bool { return p.started || p.launched })
}

// launch lets a task's runner begin. With a reason the task ends without having begun.
func (a *alloc) launch(name, skip string) {
	t, err := a.task(name)
	if err != nil {
		return
	}
	if skip != "" {
		t.runner.Stop(skip)
	}
	t.mu.Lock()
	t.launched = true
	t.mu.Unlock()
	a.agent.work.Go(func() { t.run(a.agent.ctx) })
}

func (a *alloc) progress() []progress {
	all := make([]progress, 0, len(a.tasks))
	for _, t := range a.tasks {
		all = append(all, t.progress())
	}
	return all
}

// dead reports whether no task runs or will run again.
func (a *alloc) dead() bool {
	return !slices.ContainsFunc(a.progress(), func(p progress) bool { return !p.dead })
}

func (a *alloc) stopReason() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopping
}

// stop ends all tasks for good. It is persisted before anything ends; on a disk that is full the tasks end all the same.
func (a *alloc) stop(reason string) {
	a.saving.Lock()
	defer a.saving.Unlock()
	if a.stopReason() != "" {
		return
	}
	a.agent.persist(a.edited(func(own *state.Allocation) { markStopped(own, reason) }))
	failpoint.At("agent.alloc.stop.persisted")
	a.setStopping(reason)
}

func markStopped(persisted *state.Allocation, reason string) {
	persisted.Desired, persisted.Description, persisted.ModifyTime = allocation.DesiredStop, reason, time.Now()
}

// setStopping has all tasks ended.
func (a *alloc) setStopping(reason string) {
	a.mu.Lock()
	markStopped(&a.persisted, reason)
	a.stopping, a.shown = reason, nil
	a.mu.Unlock()
	a.publish(feed.Event{Type: "AllocationUpdateDesiredStatus"})
	a.wake()
}

// finish is called when all tasks are dead.
func (a *alloc) finish() {
	a.saving.Lock()
	a.mu.Lock()
	a.persisted.ModifyTime, a.shown = time.Now(), nil
	a.mu.Unlock()
	a.rescheduleAt() // before the event and before it counts as ended: whoever waits for that sees both
	failpoint.At("agent.alloc.finish")
	persisted := a.publish(feed.Event{Type: "AllocationUpdated"}) // first: its index is persisted
	a.agent.persist(state.ChangeAllocation(&persisted))
	a.saving.Unlock()
	select {
	case <-a.done:
	default:
		close(a.done)
	}
	a.agent.ended(a)
	a.agent.reschedule(a)
}

// onTaskEvent is called when something has happened to a task.
func (a *alloc) onTaskEvent(t *task, e allocation.Event) {
	a.mu.Lock()
	if e.Time.After(a.persisted.ModifyTime) { // the end of the allocation may overtake its last event
		a.persisted.ModifyTime, a.shown = e.Time, nil
	}
	a.mu.Unlock()
	a.publish(feed.Event{Time: e.Time, Type: feed.AllocationUpdated, Task: t.spec.Name, TaskEvent: &e})
	attributes := []any{"task", t.spec.Name, "type", e.Type, "message", e.Message}
	if outcome := e.Details["outcome"]; outcome != "" {
		attributes = append(attributes, "outcome", outcome)
	}
	a.log.Info("task event", attributes...)
	a.wake()
}

// publish tells the feed of the allocation as it is now, and returns what is persisted of it, with the event's index.
func (a *alloc) publish(e feed.Event) state.Allocation {
	e.Topic, e.Key, e.FilterKeys, e.Namespace = feed.TopicAllocation, a.id, []string{a.job.ID}, a.job.Namespace
	own := *a.snapshot() // the feed numbers it
	e.Allocation = &own
	index := a.agent.feed.Publish(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.persisted.ModifyIndex = max(a.persisted.ModifyIndex, index) // another goroutine may have published meanwhile
	a.persisted.CreateIndex = cmp.Or(a.persisted.CreateIndex, index)
	a.shown = nil
	return a.persisted
}

// taskChanged is called when a task's snapshot is another.
func (a *alloc) taskChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = nil
}

// snapshot returns the allocation as it is now: the same value until it changes.
func (a *alloc) snapshot() *allocation.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown == nil {
		a.shown = a.newSnapshot()
	}
	return a.shown
}

// newSnapshot returns the allocation as it is now; a.mu is held.
func (a *alloc) newSnapshot() *allocation.Allocation {
	tasks := make(map[string]*allocation.Task, len(a.tasks))
	for _, t := range a.tasks {
		tasks[t.spec.Name] = t.snapshot()
	}
	s := &allocation.Allocation{
		ID: a.id, Namespace: a.persisted.Namespace, JobID: a.persisted.JobID, JobType: a.persisted.JobType, JobVersion: a.persisted.JobVersion,
		Group: a.persisted.Group, Name: a.name(), Index: a.persisted.Index, NodeID: a.agent.node.ID, NodeName: a.agent.node.Name,
		DesiredStatus: a.persisted.Desired, Description: a.persisted.Description, CreateTime: a.persisted.CreateTime,
		ModifyTime: a.persisted.ModifyTime, CreateIndex: a.persisted.CreateIndex, ModifyIndex: a.persisted.ModifyIndex, Dir: a.dir, Tasks: tasks,
		Previous: a.persisted.Previous, Next: a.persisted.Next, Rescheduled: a.rescheduled,
	}
	for _, p := range a.group.Ports {
		s.Ports = append(s.Ports, allocation.Port{
			Label: p.Label, Value: a.persisted.Ports[p.Label], To: p.To, HostIP: a.agent.node.Attributes["unique.network.ip-address"],
		})
	}
	s.ClientStatus = statusOf(tasks)
	if s.Description == "" {
		s.Description = describe(s.ClientStatus, tasks)
	}
	return s
}

// statusOf is what tasks come to together.
func statusOf(tasks map[string]*allocation.Task) allocation.Status {
	failed, running, dead := false, false, true
	for _, t := range tasks {
		failed = failed || t.State.Failed
		running = running || t.State.Phase == hook.PhaseRunning
		dead = dead && t.State.Phase == hook.PhaseDead
	}
	switch {
	case failed:
		return allocation.Failed
	case dead:
		return allocation.Complete
	case running:
		return allocation.Running
	}
	return allocation.Pending
}

func describe(s allocation.Status, tasks map[string]*allocation.Task) string {
	switch s {
	case allocation.Running:
		return "Tasks are running"
	case allocation.Complete:
		return "All tasks have completed"
	case allocation.Failed:
		for _, name := range slices.Sorted(maps.Keys(tasks)) {
			if tasks[name].State.Failed {
				return fmt.Sprintf("Task %s failed: no restart attempt is left", name)
			}
		}
	}
	return "No task runs yet"
}
