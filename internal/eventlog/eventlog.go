// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package eventlog numbers events, keeps the newest of them in memory, and lets followers read them in order.
package eventlog

import (
	"context"
	"io"
	"sync"
)

// Log keeps the newest events. Its methods may be called concurrently.
type Log[E any] struct {
	mu     sync.Mutex // guards following
	ring   []E
	oldest int    // index in ring of the oldest event, once the ring is full
	last   uint64 // number of the newest event
	closed bool
	// changed is closed and replaced at every event, and closed for good with the log.
	changed chan struct{}
}

// New returns a log that keeps size events and numbers the first one last+1.
func New[E any](size int, last uint64) *Log[E] {
	return &Log[E]{ring: make([]E, 0, size), last: last, changed: make(chan struct{})}
}

// Append adds the event that number makes of its own number; the oldest event makes room for it. It never waits for a
// follower. It reports false, and adds nothing, after Close.
func (l *Log[E]) Append(number func(n uint64) E) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.last++
	e := number(l.last)
	if len(l.ring) < cap(l.ring) {
		l.ring = append(l.ring, e)
	} else {
		l.ring[l.oldest] = e
		l.oldest = (l.oldest + 1) % len(l.ring)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return true
}

// Last returns the number of the newest event.
func (l *Log[E]) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Close ends the log: followers get what it has and then io.EOF.
func (l *Log[E]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.changed)
	}
}

// Follower reads a log. It is used by one goroutine at a time; a slow one misses the oldest events.
type Follower[E any] struct {
	log  *Log[E]
	last uint64 // number of the event that was read last
}

// Follow returns a follower that begins after an event; 0 begins with the oldest that the log has.
func (l *Log[E]) Follow(after uint64) *Follower[E] { return &Follower[E]{log: l, last: after} }

// Poll returns the next event. If there is none yet, it returns a channel that is closed when there may be one, and
// after the last one of a closed log it returns io.EOF.
func (f *Follower[E]) Poll() (e E, changed <-chan struct{}, err error) {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case f.last < l.last && len(l.ring) > 0:
		first := l.last - uint64(len(l.ring)) + 1
		f.last = max(f.last+1, first)
		return l.ring[(l.oldest+int(f.last-first))%len(l.ring)], nil, nil
	case l.closed:
		return e, nil, io.EOF
	}
	return e, l.changed, nil
}

// Next returns the next event and waits for it until ctx is done.
func (f *Follower[E]) Next(ctx context.Context) (E, error) {
	for {
		e, changed, err := f.Poll()
		if err != nil || changed == nil {
			return e, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
	}
}
