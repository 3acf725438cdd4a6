// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

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
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// Alloc runs one allocation: it launches and ends its tasks in the order of their lifecycle.
type Alloc struct {
	ID    string
	Job   *job.Job
	Group *job.Group
	Index int
	Dir   datadir.Allocation
	Tasks []*Task // in the order of the job file

	host *Host
	log  hclog.Logger
	done chan struct{}

	// saving orders what is persisted.
	saving sync.Mutex

	mu        sync.Mutex // guards following
	persisted state.Allocation
	// notRemoved is why the directory is still there although the allocation was to be removed.
	notRemoved string
	// rescheduled is when another allocation replaces this one, which has failed; zero if none will.
	rescheduled time.Time
	shown       *allocation.Allocation // the newest snapshot; nil if something has changed since
	changed     bool                   // since the last decision
	resting     bool                   // no goroutine decides, until something changes
}

// New makes an allocation of a job from what is persisted of it and of its tasks, by name.
func New(h *Host, persisted state.Allocation, j *job.Job, tasks map[string]*state.Task) (*Alloc, error) {
	group := j.Group(persisted.Group)
	if group == nil {
		return nil, fmt.Errorf("allocation %s: job %s has no group %s", persisted.ID, j.ID, persisted.Group)
	}
	a := &Alloc{
		ID: persisted.ID, Job: j, Group: group, Index: persisted.Index, Dir: datadir.In(h.Dir, persisted.ID),
		host: h, log: h.Log.With("alloc_id", persisted.ID, "job", j.ID), done: make(chan struct{}),
		persisted: persisted, changed: true,
	}
	for _, spec := range group.Tasks {
		var own state.Task
		if tasks[spec.Name] != nil {
			own = *tasks[spec.Name]
		}
		a.Tasks = append(a.Tasks, a.newTask(spec, own))
	}
	return a, nil
}

// Close closes the files of allocations. On a disk that hangs it gives up soon.
func Close(ctx context.Context, allocs ...*Alloc) error {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var errs []error
	for _, a := range allocs {
		for _, t := range a.Tasks {
			errs = append(errs, t.usage.history.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// rest closes the files of an allocation that has ended. They stay, and are opened for each look at them.
func (a *Alloc) rest() {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(a.host.Context, limit)
	defer cancel()
	for _, t := range a.Tasks {
		if err := t.usage.history.Rest(ctx); err != nil {
			t.log.Debug("close history of an ended task", "error", err)
		}
	}
}

// Name is JOB.GROUP[INDEX].
func (a *Alloc) Name() string { return fmt.Sprintf("%s.%s[%d]", a.Job.ID, a.Group.Name, a.Index) }

// Task returns a task by its name, or the only one if no name is given.
func (a *Alloc) Task(name string) (*Task, error) {
	if name == "" && len(a.Tasks) == 1 {
		return a.Tasks[0], nil
	}
	names := make([]string, 0, len(a.Tasks))
	for _, t := range a.Tasks {
		if t.spec.Name == name {
			return t, nil
		}
		names = append(names, t.spec.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("allocation %s has several tasks; name one of %s: %w",
			allocation.ShortID(a.ID), strings.Join(names, ", "), allocation.ErrNotFound)
	}
	return nil, allocation.NoTask(a.ID, name, names)
}

// Admit prepares an allocation that has not begun. Its tasks are sampled if publish is set.
func (a *Alloc) Admit(publish bool) {
	for _, t := range a.Tasks {
		t.prepare(nil, publish)
	}
}

// Begin runs the allocation until it ends, or the agent does: its tasks run on then.
func (a *Alloc) Begin() {
	if a.Dead() { // it was when it was restored
		a.Reschedule() // before it counts as ended, as in finish
		a.rest()
		close(a.done)
		a.host.Failed(a)
		return
	}
	if a.Predecessor() != nil {
		a.host.Work.Go(a.awaitPredecessors)
	}
	a.decide()
}

// decide takes steps as long as anything changes. An allocation at rest has no goroutine: an agent has hundreds of
// them.
func (a *Alloc) decide() {
	for a.isChanged() && a.host.Context.Err() == nil {
		if a.awaitsPredecessor() {
			continue
		}
		next := plan(a.progress(), a.StopReason())
		if next.done {
			a.finish()
			return
		}
		for _, t := range a.Tasks {
			switch name := t.spec.Name; {
			case slices.Contains(next.skip, name):
				t.runner.Stop(next.reason) // so that it ends without having begun
				t.launch()
			case slices.Contains(next.launch, name):
				t.launch()
			case slices.Contains(next.stop, name):
				t.runner.Stop(next.reason)
			}
		}
	}
}

// isChanged reports whether anything has changed since the last call. If not, the next change calls decide.
func (a *Alloc) isChanged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.changed
	a.changed, a.resting = false, !changed
	return changed
}

// wake lets the allocation decide what follows from a change.
func (a *Alloc) wake() {
	a.mu.Lock()
	rested := a.resting
	a.changed, a.resting = true, false
	a.mu.Unlock()
	if rested {
		a.host.Work.Go(a.decide)
	}
}

// Predecessor returns the nearest allocation that has not ended among those that this one replaces, one after the
// other; nil if all have.
func (a *Alloc) Predecessor() *Alloc {
	for p := a.host.Find(a.persisted.Previous); p != nil; p = a.host.Find(p.persisted.Previous) {
		if !p.Ended() {
			return p
		}
	}
	return nil
}

// awaitPredecessors wakes the allocation when all that it replaces have ended.
func (a *Alloc) awaitPredecessors() {
	for p := a.Predecessor(); p != nil; p = a.Predecessor() {
		select {
		case <-p.done:
		case <-a.host.Context.Done():
			return
		}
	}
	a.wake()
}

// awaitsPredecessor reports whether an allocation that this one replaces must end first, as with Nomad's clients:
// both have the same ports and cores. The wait is over when a task of this one has begun, or this one is stopped.
func (a *Alloc) awaitsPredecessor() bool {
	return a.StopReason() == "" && a.Predecessor() != nil &&
		!slices.ContainsFunc(a.progress(), func(p progress) bool { return p.started || p.launched })
}

func (a *Alloc) progress() []progress {
	all := make([]progress, 0, len(a.Tasks))
	for _, t := range a.Tasks {
		all = append(all, t.progress())
	}
	return all
}

// Dead reports whether no task runs or will run again.
func (a *Alloc) Dead() bool {
	return !slices.ContainsFunc(a.progress(), func(p progress) bool { return !p.dead })
}

// Done is closed when the allocation has ended.
func (a *Alloc) Done() <-chan struct{} { return a.done }

// Ended reports whether the allocation has ended.
func (a *Alloc) Ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// Persisted returns what is persisted of the allocation.
func (a *Alloc) Persisted() state.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.persisted
}

// StopReason says why all tasks must end; empty if they need not.
func (a *Alloc) StopReason() string {
	own := a.Persisted()
	if own.Desired != allocation.DesiredStop {
		return ""
	}
	return cmp.Or(own.Description, "it was stopped")
}

// Live reports whether the allocation is not stopped and has a task that runs or will run.
func (a *Alloc) Live() bool { return a.StopReason() == "" && !a.Dead() }

// Stop ends all tasks for good. It is persisted before anything ends; on a disk that is full the tasks end all the
// same.
func (a *Alloc) Stop(reason string) {
	if a.StopReason() != "" {
		return
	}
	e := a.Edit(func(own *state.Allocation) { MarkStopped(own, reason) })
	if a.StopReason() != "" {
		e.Cancel()
		return
	}
	a.host.Persist(e.Change())
	failpoint.At("agent.alloc.stop.persisted")
	e.Commit()
}

// StopAll stops allocations, all at once: they share writes to the disk, which take many milliseconds each.
func StopAll(all []*Alloc, reason string) {
	var stopping sync.WaitGroup
	for _, a := range all {
		stopping.Go(func() { a.Stop(reason) })
	}
	stopping.Wait()
}

// MarkStopped says in what is persisted of an allocation that its tasks must end.
func MarkStopped(own *state.Allocation, reason string) {
	if own.Desired != allocation.DesiredStop {
		own.Desired, own.Description, own.ModifyTime = allocation.DesiredStop, reason, time.Now()
	}
}

// Edit is a change of what is persisted of an allocation. Until it is committed or canceled, no other change is made.
type Edit struct {
	alloc *Alloc
	edit  func(*state.Allocation)
}

// Edit begins a change.
func (a *Alloc) Edit(edit func(*state.Allocation)) Edit {
	a.saving.Lock()
	return Edit{a, edit}
}

// Change returns what to persist.
func (e Edit) Change() state.Change {
	own := e.alloc.Persisted()
	e.edit(&own)
	return state.ChangeAllocation(&own)
}

// Commit shows the change once it is persisted, and ends the tasks if it says so.
func (e Edit) Commit() {
	a := e.alloc
	defer a.saving.Unlock()
	before := a.StopReason()
	a.mu.Lock()
	e.edit(&a.persisted)
	a.shown = nil
	a.mu.Unlock()
	if a.StopReason() != before {
		a.publish(snapshot.Event{Type: "AllocationUpdateDesiredStatus"})
		a.wake()
	}
}

// Cancel ends a change that is not made.
func (e Edit) Cancel() { e.alloc.saving.Unlock() }

// NotRemoved says why the directory of an allocation that has ended cannot be removed, and reports whether that is new.
func (a *Alloc) NotRemoved(reason string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = a.notRemoved != reason
	a.notRemoved, a.shown = reason, nil
	return changed
}

// finish is called when all tasks are dead.
func (a *Alloc) finish() {
	a.saving.Lock()
	a.mu.Lock()
	a.persisted.ModifyTime, a.shown = time.Now(), nil
	a.mu.Unlock()
	a.Reschedule() // before the event and before it counts as ended: who waits for that sees both
	failpoint.At("agent.alloc.finish")
	own := a.publish(snapshot.Event{Type: snapshot.AllocationUpdated}) // first: its index is persisted
	a.host.Persist(state.ChangeAllocation(&own))
	a.saving.Unlock()
	a.rest()
	close(a.done)
	a.host.Ended(a)
	a.host.Failed(a)
}

// onTaskEvent is called when something has happened to a task.
func (a *Alloc) onTaskEvent(t *Task, e allocation.Event) {
	a.mu.Lock()
	if e.Time.After(a.persisted.ModifyTime) { // the end of the allocation may overtake its last event
		a.persisted.ModifyTime, a.shown = e.Time, nil
	}
	a.mu.Unlock()
	a.publish(snapshot.Event{Time: e.Time, Type: snapshot.AllocationUpdated, Task: t.spec.Name, TaskEvent: &e})
	attributes := []any{"task", t.spec.Name, "type", e.Type, "message", e.Message}
	if outcome := e.Details["outcome"]; outcome != "" {
		attributes = append(attributes, "outcome", outcome)
	}
	a.log.Info("task event", attributes...)
	a.wake()
}

// Publish publishes the allocation as it is now with an event of a type.
func (a *Alloc) Publish(eventType string) { a.publish(snapshot.Event{Type: eventType}) }

// publish adds the allocation to an event, and returns what is persisted of it, with the event's index.
func (a *Alloc) publish(e snapshot.Event) state.Allocation {
	e.Topic, e.Key, e.FilterKeys, e.Namespace = snapshot.TopicAllocation, a.ID, []string{a.Job.ID}, a.Job.Namespace
	own := *a.Snapshot() // the feed numbers it
	e.Allocation = &own
	index := a.host.Feed.Publish(e)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.persisted.ModifyIndex = max(a.persisted.ModifyIndex, index) // another goroutine may have published meanwhile
	a.persisted.CreateIndex = cmp.Or(a.persisted.CreateIndex, index)
	a.shown = nil
	return a.persisted
}

// taskChanged is called when a task's snapshot is another.
func (a *Alloc) taskChanged() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown = nil
}

// Snapshot returns the allocation as it is now: the same value until it changes.
func (a *Alloc) Snapshot() *allocation.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shown == nil {
		a.shown = a.newSnapshot()
	}
	return a.shown
}

// newSnapshot returns the allocation as it is now; a.mu is held.
func (a *Alloc) newSnapshot() *allocation.Allocation {
	own, node := &a.persisted, &a.host.Node
	tasks := make(map[string]*allocation.Task, len(a.Tasks))
	for _, t := range a.Tasks {
		tasks[t.spec.Name] = t.snapshot()
	}
	s := &allocation.Allocation{
		ID: a.ID, Namespace: own.Namespace, JobID: own.JobID, JobType: own.JobType, JobVersion: own.JobVersion,
		Group: own.Group, Name: a.Name(), Index: own.Index, NodeID: node.ID, NodeName: node.Name,
		DesiredStatus: own.Desired, Description: own.Description, Dir: a.Dir, Tasks: tasks, CreateTime: own.CreateTime,
		ModifyTime: own.ModifyTime, CreateIndex: own.CreateIndex, ModifyIndex: own.ModifyIndex,
		Previous: own.Previous, Next: own.Next, Rescheduled: a.rescheduled, ClientStatus: statusOf(tasks),
	}
	for _, p := range a.Group.Ports {
		s.Ports = append(s.Ports, allocation.Port{
			Label: p.Label, Value: own.Ports[p.Label], To: p.To, HostIP: node.Attributes["unique.network.ip-address"],
		})
	}
	if a.notRemoved != "" {
		s.Description = "not removed: " + a.notRemoved
	}
	if s.Description == "" {
		s.Description = describe(s.ClientStatus, tasks)
	}
	return s
}

// statusOf returns what tasks come to together.
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
