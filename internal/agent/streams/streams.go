// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package streams bounds the requests that last, such as followed logs, event streams and live pages, by kind: clients
// that open many of one kind, and read them slowly or not at all, leave room for the others.
package streams

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is who has a stream open, and what for. It is a label in the metrics.
type Kind string

// The kinds. Callers who are not trusted cannot take the room of those who are.
const (
	Trusted       Kind = "trusted"
	Untrusted     Kind = "untrusted"
	Exec          Kind = "exec" // commands in tasks, of trusted callers
	Page          Kind = "page"
	UntrustedPage Kind = "page_untrusted"
)

// Kinds returns all kinds, in the order of the metrics.
func Kinds() []Kind { return []Kind{Trusted, Untrusted, Exec, Page, UntrustedPage} }

// Limits are how many streams of each kind may be open.
type Limits map[Kind]int

// DefaultLimits bound the memory of streams to about 40 MiB: each has a buffer of at most 64 KiB.
func DefaultLimits() Limits {
	return Limits{Trusted: 256, Untrusted: 256, Exec: 64, Page: 64, UntrustedPage: 64}
}

// Usage is the streams of one kind.
type Usage struct {
	Kind Kind
	// Open is how many are open now.
	Open int
	// Refused counts those that found no room.
	Refused uint64
}

// Room is the room for streams. Its methods may be called concurrently.
type Room struct {
	// Connections are those over TCP; nil for none.
	Connections *Connections
	// Denied counts requests with a wrong token.
	Denied atomic.Uint64

	limits Limits

	mu    sync.Mutex // guards usage
	usage []Usage
}

// New returns a room without a stream in it.
func New(limits Limits) *Room {
	r := &Room{limits: limits}
	for _, kind := range Kinds() {
		r.usage = append(r.usage, Usage{Kind: kind})
	}
	return r
}

// Enter takes the place of one stream, which leave gives back: it must be called once. It reports false if there is
// none.
func (r *Room) Enter(kind Kind) (leave func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := &r.usage[slices.Index(Kinds(), kind)]
	if u.Open >= r.limits[kind] {
		u.Refused++
		return nil, false
	}
	u.Open++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		u.Open--
	}, true
}

// Usage returns the streams of every kind.
func (r *Room) Usage() []Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.usage)
}

// Writer sends each piece at once. A client that takes longer than Stall for one is dropped.
type Writer struct {
	To    http.ResponseWriter
	Stall time.Duration
}

// Send sends a piece; an empty one is the head of the response.
func (s Writer) Send(p []byte) error {
	control := http.NewResponseController(s.To)
	_ = control.SetWriteDeadline(time.Now().Add(s.Stall)) // writers without deadlines are those of tests
	if _, err := s.To.Write(p); err != nil {
		return fmt.Errorf("write stream: %w", err)
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("flush stream: %w", err)
	}
	return nil
}
