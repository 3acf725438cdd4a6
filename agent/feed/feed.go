// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package feed is the agent's event feed: what happens, numbered, with the newest kept for those who come late.
package feed

import (
	"context"
	"sync"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
)

// The topics of events, in Nomad's words.
const (
	TopicJob        = "Job"
	TopicAllocation = "Allocation"
	TopicNode       = "Node"
)

// Event is one thing that happened.
type Event struct {
	// Index grows with every event, over restarts of the agent too: by one, and by more at a restart.
	Index uint64
	Time  time.Time
	Topic string
	// Type is a word such as JobRegistered, JobDeregistered, AllocationUpdated, TaskEvent, NodeUpdated.
	Type string
	// Key is the id of what it happened to; FilterKeys are ids of what that belongs to.
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
type Feed struct {
	mu     sync.Mutex // guards following
	index  uint64
	ring   []Event
	next   int           // where the next event goes once the ring is full
	change chan struct{} // closed and replaced at every event
}

// New returns a feed that keeps size events and goes on after index.
func New(size int, index uint64) *Feed {
	return &Feed{index: index, ring: make([]Event, 0, size), change: make(chan struct{})}
}

// Index returns the index of the last event.
func (f *Feed) Index() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index
}

// Publish numbers an event and adds it. It never waits for a reader.
func (f *Feed) Publish(e Event) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index++
	e.Index = f.index
	if a := e.Allocation; a != nil { // nobody else has the snapshot yet
		a.ModifyIndex = f.index
		if a.CreateIndex == 0 {
			a.CreateIndex = f.index
		}
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if len(f.ring) < cap(f.ring) {
		f.ring = append(f.ring, e)
	} else {
		f.ring[f.next] = e
		f.next = (f.next + 1) % len(f.ring)
	}
	close(f.change)
	f.change = make(chan struct{})
	return e.Index
}

// After returns the kept events after index, oldest first, how many after it are not kept any more, and a channel
// that is closed at the next event.
func (f *Feed) After(index uint64) (events []Event, lost uint64, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.ring {
		if e := f.ring[(f.next+i)%len(f.ring)]; e.Index > index {
			events = append(events, e)
		}
	}
	oldest := f.index + 1
	if len(f.ring) > 0 {
		oldest = f.ring[f.next%len(f.ring)].Index
	}
	if oldest > index+1 {
		lost = oldest - index - 1
	}
	return events, lost, f.change
}

// Subscription reads a feed. It is used by one goroutine at a time; a slow reader loses the oldest events.
type Subscription struct {
	feed  *Feed
	after uint64
	ready []Event
}

// Subscribe begins behind the event with an index; 0 begins with the oldest that is kept.
func (f *Feed) Subscribe(after uint64) *Subscription { return &Subscription{feed: f, after: after} }

// Next returns the next event, and waits for it until ctx is done.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	for len(s.ready) == 0 {
		events, _, changed := s.feed.After(s.after)
		if s.ready = events; len(events) > 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
	e := s.ready[0]
	s.ready, s.after = s.ready[1:], e.Index
	return e, nil
}
