// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package snapshot has what an agent shows: its state at one moment as a value, from which API, page and metrics are
// made, and the feed of its events.
//
// What does not change between two snapshots is shared by them. A snapshot and all that it refers to may be kept, and
// must not be changed.
package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/eventlog"
	"github.com/tachograph/tacho/internal/figures"
)

// Agent is an agent at one moment.
type Agent struct {
	// Index is that of the newest event that is certainly in it.
	Index uint64
	// Config is the effective configuration. It has no secrets in it.
	Config config.Config
	// NotPublishing says why tasks are not read; empty if they are.
	NotPublishing string
	// Node is the machine, with its drivers.
	Node node.Node
	// Jobs are by id.
	Jobs []*Job
	// NotRemoved counts the directories of ended allocations that cannot be removed.
	NotRemoved int
	// Allocations are newest first.
	Allocations []*allocation.Allocation
	// Usages are what the tasks of Allocations use.
	Usages map[*allocation.Task]*figures.Figures
}

// Job is a job with its state.
type Job struct {
	Job     *job.Job
	ID      string
	Version uint64
	// Status is pending, running or dead.
	Status      string
	Stopped     bool
	SubmitTime  time.Time
	CreateIndex uint64
	ModifyIndex uint64
	// Unplaced are the allocations that wait until this node can run them, by group.
	Unplaced map[string]*Unplaced
}

// Unplaced are allocations of a group that this node cannot run.
type Unplaced struct {
	// Indexes are those of the allocations.
	Indexes []int
	// Filtered are the constraints that the node does not meet, Exhausted names the resources that are taken.
	Filtered  []*job.Constraint
	Exhausted []string
}

// Add adds an allocation with the reasons.
func (u *Unplaced) Add(index int, filtered []*job.Constraint, exhausted string) {
	u.Indexes = append(u.Indexes, index)
	for _, c := range filtered {
		if !slices.ContainsFunc(u.Filtered, func(o *job.Constraint) bool { return o.String() == c.String() }) {
			u.Filtered = append(u.Filtered, c)
		}
	}
	if exhausted != "" && !slices.Contains(u.Exhausted, exhausted) {
		u.Exhausted = append(u.Exhausted, exhausted)
	}
}

// Reasons returns the reasons as sentences.
func (u *Unplaced) Reasons() []string {
	reasons := make([]string, 0, len(u.Filtered)+len(u.Exhausted))
	for _, c := range u.Filtered {
		reasons = append(reasons, fmt.Sprintf("constraint %q filtered 1 node", c.String()))
	}
	return append(reasons, u.Exhausted...)
}

// Plan is what would be done for a job.
type Plan struct {
	Job *job.Job
	// Now is the job as it is registered; nil if it is not.
	Now *Job
	// Groups are the changes of each group, by name, also of those that would be removed.
	Groups map[string]Changes
	// Unplaced are the allocations that this node could not run, by group.
	Unplaced map[string]*Unplaced
}

// Changes count allocations of a group.
type Changes struct {
	// Replace are those that another allocation replaces.
	Ignore, Place, Stop, Replace int
}

// Cost is what an agent's own process uses.
type Cost struct {
	CPUSeconds float64
	// RSSBytes is 0 if it could not be read.
	RSSBytes   int64
	Goroutines int
	Uptime     time.Duration
	// Samples and Backlogged count readings taken and readings that came more than an interval late.
	Samples, Backlogged int64
	// HistoryDropped counts the readings that are not in the history because the disk was too slow.
	HistoryDropped int64
	// Errors counts failures by what failed.
	Errors map[string]int64
}

// Job returns a job by its exact id. The error wraps allocation.ErrNotFound.
func (a *Agent) Job(id string) (*Job, error) {
	for _, j := range a.Jobs {
		if j.Job.ID == id {
			return j, nil
		}
	}
	return nil, fmt.Errorf("job %q: %w", id, allocation.ErrNotFound)
}

// Allocation returns the one allocation whose id begins with prefix. Errors wrap allocation.ErrNotFound or
// allocation.ErrAmbiguous.
func (a *Agent) Allocation(prefix string) (*allocation.Allocation, error) {
	ids := make([]string, len(a.Allocations))
	for i, l := range a.Allocations {
		ids[i] = l.ID
	}
	id, err := allocation.Find(ids, prefix)
	if err != nil {
		return nil, err
	}
	return a.Allocations[slices.Index(ids, id)], nil
}

// Usage returns what a task of the snapshot uses.
func (a *Agent) Usage(t *allocation.Task) *figures.Figures {
	if u := a.Usages[t]; u != nil {
		return u
	}
	return &figures.Figures{Reason: "not read yet"}
}

// UsageFor returns what a task uses. Command lines are for trusted readers, and so is why a running task has no fresh
// reading: the driver's own words can contain anything.
func (a *Agent) UsageFor(t *allocation.Task, trusted bool) *figures.Figures {
	u := a.Usage(t)
	if trusted {
		return u
	}
	redacted := *u
	if u.Sample != nil {
		redacted.Sample = u.Sample.Redacted()
	}
	if a.NotPublishing == "" && u.Running && u.Reason != "" {
		redacted.Reason = "no fresh reading"
	}
	return &redacted
}

// The topics of events, in Nomad's words.
const (
	TopicJob        = "Job"
	TopicAllocation = "Allocation"
	TopicNode       = "Node"
)

// AllocationUpdated is the type of events of an allocation and its tasks, and of a job whose status they change.
const AllocationUpdated = "AllocationUpdated"

// Event is one thing that happened.
type Event struct {
	// Index grows with every event, over restarts of the agent too: by one, and by more at a restart.
	Index uint64
	Time  time.Time
	Topic string
	// Type is a word of Nomad's: JobRegistered, JobDeregistered, AllocationCreated, AllocationUpdated,
	// NodeStreamEvent; and AllocationRemoved, which Nomad does not have.
	Type string
	// Key is the ID of the object; FilterKeys are the IDs of the objects that it belongs to.
	Key        string
	FilterKeys []string
	Namespace  string
	// Task and TaskEvent are set for what happened to a task.
	Task      string
	TaskEvent *allocation.Event
	// Allocation is a snapshot, for events of the topic.
	Allocation *allocation.Allocation
}

// Feed keeps the newest events. Its methods may be called concurrently.
type Feed struct{ log *eventlog.Log[Event] }

// Subscription reads a feed. It is used by one goroutine at a time; a slow reader misses the oldest events.
type Subscription = eventlog.Follower[Event]

// NewFeed returns a feed that keeps size events. The first one has the index after index.
func NewFeed(size int, index uint64) *Feed { return &Feed{log: eventlog.New[Event](size, index)} }

// Index returns the index of the last event.
func (f *Feed) Index() uint64 { return f.log.Last() }

// Publish numbers an event and adds it. It never waits for a reader.
func (f *Feed) Publish(e Event) (index uint64) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	f.log.Append(func(n uint64) Event {
		index, e.Index = n, n
		if a := e.Allocation; a != nil { // the snapshot is not shared yet
			a.ModifyIndex = n
			a.CreateIndex = cmp.Or(a.CreateIndex, n)
		}
		return e
	})
	return index
}

// Subscribe begins after the event with an index; 0 begins with the oldest event that is kept.
func (f *Feed) Subscribe(after uint64) *Subscription { return f.log.Follow(after) }
