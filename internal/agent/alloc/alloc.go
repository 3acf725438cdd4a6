// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// Alloc runs one allocation: it launches and ends its tasks in the order of their lifecycle.
type Alloc struct {
	ID, JobID, Namespace, Group string
	Index                       int
	Dir                         datadir.Allocation

	host *Host
	done chan struct{}

	// saving orders what is persisted.
	saving sync.Mutex
	// publishing orders events: a later one has a later snapshot.
	publishing sync.Mutex

	mu sync.Mutex // guards following
	// live is nil once the allocation has ended, and ended until then.
	live      *parts
	ended     *ended
	persisted state.Allocation
	// rescheduled is when another allocation replaces this one, which has failed; zero if none will.
	rescheduled time.Time
	shown       *allocation.Allocation // the newest snapshot; nil if something has changed since
	status      allocation.Status      // of the newest snapshot
	over        bool                   // all tasks are dead, and rescheduled is decided
	changed     bool                   // since the last decision
	resting     bool                   // no goroutine decides, until something changes
	next        chan struct{}          // closed at the next change; nil if nothing waits for that
}

// New makes an allocation of a job from what is persisted of it and of its tasks, by name.
func New(h *Host, persisted state.Allocation, j *job.Job, tasks map[string]*state.Task) (*Alloc, error) {
	a := &Alloc{
		ID: persisted.ID, JobID: persisted.JobID, Namespace: persisted.Namespace, Group: persisted.Group,
		Index: persisted.Index, Dir: datadir.In(h.Dir, persisted.ID),
		host: h, done: make(chan struct{}), persisted: persisted, changed: true,
	}
	var err error
	a.live, err = a.newParts(j, tasks)
	return a, err
}

// Close closes the files of allocations. On a disk that hangs it gives up soon.
func Close(ctx context.Context, allocs ...*Alloc) error {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var errs []error
	for _, a := range allocs {
		for _, t := range a.Tasks() {
			errs = append(errs, t.usage.history.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// Watched reports whether it is a cgroup that is only watched.
func (a *Alloc) Watched() bool { return a.persisted.JobType == allocation.Watch }

// Name is JOB.GROUP[INDEX]; of a cgroup that is only watched, the path of the one above it.
func (a *Alloc) Name() string {
	if a.Watched() {
		return cmp.Or(strings.TrimSuffix(a.JobID, "/"), "/")
	}
	return fmt.Sprintf("%s.%s[%d]", a.JobID, a.Group, a.Index)
}

// Task returns a task by its name, or the only one if no name is given.
func (a *Alloc) Task(name string) (*Task, error) {
	tasks := a.Tasks()
	if tasks == nil {
		for _, shown := range a.Snapshot().Tasks {
			tasks = append(tasks, a.endedTask(shown))
		}
	}
	if name == "" && len(tasks) == 1 {
		return tasks[0], nil
	}
	names := make([]string, 0, len(tasks))
	for _, t := range tasks {
		if t.spec.Name == name {
			return t, nil
		}
		names = append(names, t.spec.Name)
	}
	slices.Sort(names)
	if name == "" {
		return nil, fmt.Errorf("allocation %s has several tasks; name one of %s: %w",
			allocation.ShortID(a.ID), strings.Join(names, ", "), allocation.ErrNotFound)
	}
	return nil, allocation.NoTask(a.ID, name, names)
}

// Admit prepares an allocation that has not begun. Its tasks are sampled if publish is set.
func (a *Alloc) Admit(publish bool) {
	for _, t := range a.Tasks() {
		t.prepare(nil, publish)
	}
}

// Begin runs the allocation until it ends, or the agent does: its tasks run on then.
func (a *Alloc) Begin() {
	if a.Dead() { // it was when it was restored
		a.decideOver() // before it counts as ended, as in finish
		close(a.done)
		a.host.Failed(a)
		a.rest()
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
		for _, t := range a.Tasks() {
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
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
	a.mu.Unlock()
	if rested {
		a.host.Work.Go(a.decide)
	}
}

// nextChange returns a channel that is closed at the next change.
func (a *Alloc) nextChange() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
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

func (a *Alloc) progress() []progress { return progressOf(a.Tasks()) }

func progressOf(tasks []*Task) []progress {
	all := make([]progress, 0, len(tasks))
	for _, t := range tasks {
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

// KillTimeouts returns those of all tasks together: they take no longer to end, even one after the other.
func (a *Alloc) KillTimeouts() (total time.Duration) {
	for _, t := range a.Tasks() {
		total += t.spec.KillTimeout
	}
	return total
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
	a.saving.Lock()
	defer a.saving.Unlock()
	own := a.Persisted()
	if own.NotRemoved == reason {
		return false
	}
	own.NotRemoved = reason
	a.host.Persist(state.ChangeAllocation(&own)) // before anybody can see it
	a.mu.Lock()
	defer a.mu.Unlock()
	a.persisted.NotRemoved, a.shown = reason, nil
	return true
}

// finish is called when all tasks are dead.
func (a *Alloc) finish() {
	a.saving.Lock()
	a.mu.Lock()
	a.persisted.ModifyTime = time.Now()
	a.shown = nil
	a.mu.Unlock()
	a.decideOver() // before the event and before it counts as ended: who waits for that sees both
	failpoint.At("agent.alloc.finish")
	own := a.publish(snapshot.Event{Type: snapshot.AllocationUpdated}) // first: its index is persisted
	a.persistEnd(&own)
	a.saving.Unlock()
	close(a.done)
	a.host.Ended(a)
	a.host.Failed(a)
	a.rest()
}

// onTaskEvent is called when something has happened to a task.
func (a *Alloc) onTaskEvent(t *Task, e allocation.Event) {
	a.mu.Lock()
	if e.Time.After(a.persisted.ModifyTime) { // the end of the allocation may overtake its last event
		a.persisted.ModifyTime = e.Time
		a.shown = nil
	}
	a.mu.Unlock()
	a.publish(snapshot.Event{Time: e.Time, Type: snapshot.AllocationUpdated, Task: t.spec.Name, TaskEvent: &e})
	attributes := []any{"task", t.spec.Name, "type", e.Type, "message", e.Message}
	if outcome := e.Details["outcome"]; outcome != "" {
		attributes = append(attributes, "outcome", outcome)
	}
	a.log().Info("task event", attributes...)
	a.wake()
}

// Publish publishes the allocation as it is now with an event of a type.
func (a *Alloc) Publish(eventType string) { a.publish(snapshot.Event{Type: eventType}) }

// publish adds the allocation to an event, and returns what is persisted of it, with the event's index.
func (a *Alloc) publish(e snapshot.Event) state.Allocation {
	e.Topic, e.Key, e.FilterKeys, e.Namespace = snapshot.TopicAllocation, a.ID, []string{a.JobID}, a.Namespace
	a.publishing.Lock()
	e.Allocation = new(*a.Snapshot()) // the feed numbers it
	index := a.host.Feed.Publish(e)
	a.publishing.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.persisted.ModifyIndex = max(a.persisted.ModifyIndex, index) // another goroutine may have published meanwhile
	a.persisted.CreateIndex = cmp.Or(a.persisted.CreateIndex, index)
	a.shown = nil
	return a.persisted
}
