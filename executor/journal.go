// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"strings"
	"sync"
	"time"

	"github.com/tachograph/tacho/executor/proto"
)

// maxEvents bounds the journal: events are rare, and a task that makes many (OOM kills in a loop) must not make
// its executor grow.
const maxEvents = 256

// journal keeps what happened to the task, for readers who come at any time.
type journal struct {
	mu     sync.Mutex // guards following
	events []*proto.Event
	last   uint64
	closed bool
	// changed is closed and replaced when something is added.
	changed chan struct{}
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

// add appends an event; the oldest gives way where there are too many.
//
// Names of processes are in it, which may have any bytes; a caller of an older build takes none but UTF-8.
func (j *journal) add(kind, message string, annotations map[string]string) {
	message = readable(message)
	for key, text := range annotations {
		annotations[key] = readable(text)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.last++
	j.events = append(j.events, &proto.Event{
		Sequence: j.last, UnixNs: time.Now().UnixNano(), Kind: kind, Message: message, Annotations: annotations,
	})
	if len(j.events) > maxEvents {
		j.events = j.events[1:]
	}
	j.wakeLocked()
}

// close says that nothing will be added.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.closed = true
		j.wakeLocked()
	}
}

func (j *journal) wakeLocked() {
	close(j.changed)
	j.changed = make(chan struct{})
}

// after returns the events with a sequence greater than the given one, a channel that is closed at the next
// change, and whether the journal is closed.
func (j *journal) after(sequence uint64) (events []*proto.Event, changed <-chan struct{}, closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, event := range j.events {
		if event.GetSequence() > sequence {
			events = append(events, j.events[i:]...)
			break
		}
	}
	return events, j.changed, j.closed
}

// readable is a text without bytes that are no UTF-8.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
