// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package snapshot

import (
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/eventlog"
)

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
			if a.CreateIndex == 0 {
				a.CreateIndex = n
			}
		}
		return e
	})
	return index
}

// Subscribe begins after the event with an index; 0 begins with the oldest event that is kept.
func (f *Feed) Subscribe(after uint64) *Subscription { return f.log.Follow(after) }
