// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"sync"
	"time"
)

// maxEvents bounds the events kept for hosts that are not listening.
const maxEvents = 1024

// wireHandling is how long a host behind a wire is taken to be at work on an event: it takes many and handles them one
// by one, each with a write to its disk. Hosts in this process come back for another when they are done.
const wireHandling = 30 * time.Millisecond

// eventLog keeps events until somebody was told.
type eventLog struct {
	handling time.Duration // by a host, of one event that was taken

	mu     sync.Mutex // guards following
	events []*loggedEvent
	last   uint64 // sequence of the newest event
	told   uint64 // sequence of the newest event that anybody was told
	// taken is the sequence of the newest event whose listener has come back for another.
	taken     uint64
	handled   time.Time // when all events that were taken should be handled
	listeners int
	// changed is closed and replaced when something of the above is another.
	changed chan struct{}
}

// loggedEvent is an event and what to do when somebody was told.
type loggedEvent struct {
	*Event
	sequence uint64
	onTold   func()
}

func newEventLog(handling time.Duration) *eventLog {
	return &eventLog{handling: handling, changed: make(chan struct{})}
}

// add adds an event; the oldest gives way where there are too many. onTold may be nil.
func (l *eventLog) add(e *Event, onTold func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.events = append(l.events, &loggedEvent{Event: e, sequence: l.last, onTold: onTold})
	if len(l.events) > maxEvents {
		l.events = l.events[1:]
	}
	l.change()
}

// change wakes who waits; l.mu is held.
func (l *eventLog) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// next returns the first event after a sequence, or nil and a channel that is closed when there is another.
func (l *eventLog) next(after uint64) (e *loggedEvent, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.sequence > after {
			return e, nil
		}
	}
	return nil, l.changed
}

// tell notes that a listener gets an event.
func (l *eventLog) tell(e *loggedEvent) {
	l.mu.Lock()
	first := e.sequence > l.told
	l.told = max(l.told, e.sequence)
	l.mu.Unlock()
	if first && e.onTold != nil {
		e.onTold()
	}
}

// take notes that a listener has come back from handling an event.
func (l *eventLog) take(sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence <= l.taken {
		return
	}
	if now := time.Now(); l.handled.Before(now) {
		l.handled = now
	}
	l.handled = l.handled.Add(time.Duration(sequence-l.taken) * l.handling)
	l.taken = sequence
	l.change()
}

// awaitHandled waits until a listener has taken all events that there are now and has had the time to handle them. It
// returns earlier where nobody listens, or when ctx is done.
func (l *eventLog) awaitHandled(ctx context.Context) {
	if l.awaitTaken(ctx) {
		l.mu.Lock()
		left := time.Until(l.handled)
		l.mu.Unlock()
		pause(ctx, left)
	}
}

// awaitTaken reports false where nobody listens, or ctx is done first.
func (l *eventLog) awaitTaken(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for last := l.last; l.listeners > 0; {
		if l.taken >= last {
			return true
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}

// eventStream is one listener.
type eventStream struct {
	ctx    context.Context
	log    *eventLog
	closed <-chan struct{} // closed when the driver is
	at     uint64          // sequence of the last event that was received
}

// listen returns a new listener, who begins behind what anybody was told.
func (l *eventLog) listen(ctx context.Context, closed <-chan struct{}) *eventStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners++
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.listeners--
		l.change()
	})
	return &eventStream{ctx: ctx, log: l, closed: closed, at: l.told}
}

func (s *eventStream) Recv() (*Event, error) {
	s.log.take(s.at)
	for {
		e, changed := s.log.next(s.at)
		if e != nil {
			s.at = e.sequence
			s.log.tell(e)
			return e.Event, nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		case <-s.closed:
			return nil, io.EOF
		}
	}
}

// pause waits, or returns early when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
