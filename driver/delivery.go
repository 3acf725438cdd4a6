// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tachograph/tacho/internal/eventlog"
)

// announceLimit bounds how long the end of a task is delayed for a host that is slow to handle the task's events.
const announceLimit = 2 * time.Second

// maxEvents bounds the events kept for hosts that are not listening.
const maxEvents = 1024

// delivery sends events to hosts and tracks which of them have been handled.
//
// A host in this process has handled an event when it calls Recv for the next one. A host behind a wire may have
// received many that it has not handled: its stream is ended when awaitHandled is called, because a host handles
// events in order and opens an ended stream again only after all that it received.
type delivery struct {
	log    *eventlog.Log[*delivered]
	remote bool // the host is behind a wire

	mu        sync.Mutex // guards following
	received  uint64     // newest that a host has received
	handled   uint64     // newest that a host has handled
	awaited   uint64     // newest that awaitHandled waits for
	listeners int
	// returning reports that a host's stream was ended and the host has not opened another.
	returning bool
	// changed is closed and replaced when one of the fields above changes.
	changed chan struct{}
}

// delivered is an event with a function to call when a host has received it.
type delivered struct {
	*Event
	number     uint64
	onReceived func() // nil once it was called; guarded by mu of delivery
}

func newDelivery(remote bool) *delivery {
	return &delivery{log: eventlog.New[*delivered](maxEvents, 0), remote: remote, changed: make(chan struct{})}
}

// add adds an event and drops the oldest if there are more than maxEvents. onReceived may be nil.
func (d *delivery) add(e *Event, onReceived func()) {
	d.log.Append(func(n uint64) *delivered { return &delivered{Event: e, number: n, onReceived: onReceived} })
}

// change wakes all waiters; d.mu is held.
func (d *delivery) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// awaitHandled waits until a host has handled all events added so far. It returns earlier if there is no listener, or
// when ctx is done.
func (d *delivery) awaitHandled(ctx context.Context) (handled bool) {
	last := d.log.Last()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaited = max(d.awaited, last)
	d.change()
	for d.handled < last && (d.listeners > 0 || d.returning) {
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		d.mu.Lock()
		if ctx.Err() != nil {
			d.returning = false
			break
		}
	}
	return d.handled >= last
}

// receive records that a host receives an event.
func (d *delivery) receive(e *delivered) {
	d.mu.Lock()
	onReceived := e.onReceived
	e.onReceived = nil // the task of the event is held no longer
	d.received = max(d.received, e.number)
	d.mu.Unlock()
	if onReceived != nil {
		onReceived()
	}
}

// handle records that a host has handled an event and all before it.
func (d *delivery) handle(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if number > d.handled {
		d.handled = number
		d.change()
	}
}

// eventStream is one listener.
type eventStream struct {
	ctx      context.Context
	delivery *delivery
	events   *eventlog.Follower[*delivered]
	last     uint64 // number of the event that was received last
	// unlisten stops watching ctx and reports whether it was being watched.
	unlisten func() bool
}

// listen returns a new listener, which starts after the newest event that any listener has received.
func (d *delivery) listen(ctx context.Context) *eventStream {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.remote && (d.returning || d.listeners == 0) {
		d.handled, d.returning = d.received, false
	}
	d.listeners++
	d.change()
	return &eventStream{
		ctx: ctx, delivery: d, events: d.log.Follow(d.received), last: d.received,
		unlisten: context.AfterFunc(ctx, func() { d.leave(false) }),
	}
}

// leave records that a listener has gone.
func (d *delivery) leave(returning bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners--
	d.returning = d.returning || returning
	d.change()
}

// Recv implements Stream.
func (s *eventStream) Recv() (*Event, error) {
	if !s.delivery.remote {
		s.delivery.handle(s.last)
	}
	for {
		e, added, err := s.events.Poll()
		switch {
		case err != nil:
			return nil, err
		case added == nil:
			s.last = e.number
			s.delivery.receive(e)
			return e.Event, nil
		}
		ends, changed := s.delivery.mustReturn(s.last)
		if ends && s.unlisten() {
			s.delivery.leave(true)
			return nil, io.EOF
		}
		select {
		case <-added:
		case <-changed:
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
	}
}

// mustReturn reports whether awaitHandled waits for a host behind a wire to handle an event that it has received, and
// returns a channel that is closed when that may have changed.
func (d *delivery) mustReturn(last uint64) (bool, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.remote && d.handled < last && d.handled < d.awaited, d.changed
}

// confirmLimit is how long after it has connected a host may take to recover a task. A host recovers all tasks that it
// knows of as soon as it has started.
const confirmLimit = time.Minute

// forgetLimit is how long the end of a task is kept for a host that knew of the task: drivers that are slow to start
// hold up its recoveries, and a task whose end is lost would run again.
const forgetLimit = time.Hour

// confirmations has the newest connection of a host that was not waited for yet; it is nil for a host in this process.
// Tasks are ended that a host does not know of: it was killed before it had persisted their handles, and asks for them
// neither by StartTask nor by RecoverTask if their job was stopped meanwhile.
type confirmations chan time.Time

// watch calls end after each connection, with its time, unless another follows at once, until ctx is done: after
// confirmLimit and, to forget ended tasks too, after forgetLimit; and each confirmLimit while end reports that tasks
// run which the host has not recovered.
func (c confirmations) watch(ctx context.Context, end func(ctx context.Context, before time.Time, forget bool) bool) {
	var again <-chan time.Time // nil if nothing is to be ended or forgotten
	var at time.Time
	for {
		select {
		case at = <-c:
			pause(ctx, time.Until(at.Add(confirmLimit)))
		case <-again:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		forget := time.Since(at) >= forgetLimit
		unclaimed := end(ctx, at, forget)
		switch {
		case unclaimed:
			again = time.After(confirmLimit)
		case forget:
			again = nil
		default:
			again = time.After(time.Until(at.Add(forgetLimit)))
		}
	}
}

// connected is called when a host connects.
func (c confirmations) connected() {
	select {
	case <-c: // a newer one includes it
	default:
	}
	select {
	case c <- time.Now():
	default: // another connects now, or there is no watch
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
