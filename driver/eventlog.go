// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"io"
	"sync"
)

// maxEvents bounds the events kept for hosts that are not listening.
const maxEvents = 1024

// eventLog keeps events until somebody was told.
type eventLog struct {
	mu     sync.Mutex // guards following
	events []*loggedEvent
	last   uint64 // sequence of the newest event
	told   uint64 // sequence of the newest event that anybody was told
	// changed is closed and replaced when something is added.
	changed chan struct{}
}

// loggedEvent is an event and what to do when somebody was told.
type loggedEvent struct {
	*Event
	sequence uint64
	onTold   func()
}

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

// add adds an event; the oldest gives way where there are too many. onTold may be nil.
func (l *eventLog) add(e *Event, onTold func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.events = append(l.events, &loggedEvent{Event: e, sequence: l.last, onTold: onTold})
	if len(l.events) > maxEvents {
		l.events = l.events[1:]
	}
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
	return &eventStream{ctx: ctx, log: l, closed: closed, at: l.told}
}

func (s *eventStream) Recv() (*Event, error) {
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
