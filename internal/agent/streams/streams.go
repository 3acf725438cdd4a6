// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package streams bounds the requests that last, such as followed logs, event streams and live pages, by kind: clients
// that open many of one kind, and read them slowly or not at all, leave room for the others.
package streams

import (
	"fmt"
	"maps"
	"net"
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

// Connections bounds how many connections a listener has open, in all and by caller: each takes a descriptor, which
// the state, the control socket and starts of tasks need too. When there is no room the connection gives way that has
// waited longest for its next request, or for its first. Its methods may be called concurrently.
type Connections struct {
	most int

	mu      sync.Mutex // guards following
	open    map[*connection]struct{}
	callers map[string]int // by IP address
	refused uint64
}

// connection is one of them.
type connection struct {
	net.Conn
	all    *Connections
	caller string
	// idle is since when it has no request, zero while it has one; guarded by all.mu.
	idle time.Time
	once sync.Once
}

// NewConnections allows so many connections, and one caller half of them.
func NewConnections(most int) *Connections {
	return &Connections{most: most, open: make(map[*connection]struct{}), callers: make(map[string]int)}
}

// Count returns how many connections are open, and how many were refused or closed for others.
func (c *Connections) Count() (open int, refused uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open), c.refused
}

// CloseAll closes all connections, such as those that a new rule would refuse.
func (c *Connections) CloseAll() {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, own := range all {
		_ = own.Close()
	}
}

// Bound returns a listener whose connections are counted.
func (c *Connections) Bound(l net.Listener) net.Listener { return &bounded{l, c} }

type bounded struct {
	net.Listener
	all *Connections
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if own := b.all.admit(conn); own != nil {
			return own, nil
		}
		_ = conn.Close()
	}
}

// admit counts a connection; nil if there is no room for it.
func (c *Connections) admit(conn net.Conn) *connection {
	own := &connection{Conn: conn, all: c, caller: Caller(conn.RemoteAddr().String()), idle: time.Now()}
	var oldest *connection
	defer func() {
		if oldest != nil {
			_ = oldest.close() // outside of the lock
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.most || c.callers[own.caller] >= max(1, c.most/2) {
		c.refused++
		if oldest = c.oldest(own.caller); oldest == nil {
			return nil
		}
		c.remove(oldest)
	}
	c.open[own] = struct{}{}
	c.callers[own.caller]++
	return own
}

// oldest returns the connection that gives way to one of a caller: one of the caller's own if the caller has too many.
func (c *Connections) oldest(caller string) (oldest *connection) {
	own := c.callers[caller] >= max(1, c.most/2)
	for o := range c.open {
		if !o.idle.IsZero() && (!own || o.caller == caller) && (oldest == nil || o.idle.Before(oldest.idle)) {
			oldest = o
		}
	}
	return oldest
}

func (c *Connections) remove(own *connection) {
	if _, ok := c.open[own]; !ok {
		return
	}
	delete(c.open, own)
	if c.callers[own.caller]--; c.callers[own.caller] == 0 {
		delete(c.callers, own.caller)
	}
}

// Caller returns the IP address in the address of a client, or all of an address without a port.
func Caller(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// State is told by an http.Server which connections have a request: see its ConnState.
func (c *Connections) State(conn net.Conn, state http.ConnState) {
	if inner, ok := conn.(interface{ NetConn() net.Conn }); ok { // under TLS
		conn = inner.NetConn()
	}
	own, ok := conn.(*connection)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own.idle = time.Time{}
	if state == http.StateIdle || state == http.StateNew {
		own.idle = time.Now()
	}
}

// Close implements net.Conn.
func (o *connection) Close() error {
	o.all.mu.Lock()
	o.all.remove(o)
	o.all.mu.Unlock()
	return o.close()
}

func (o *connection) close() (err error) {
	o.once.Do(func() { err = o.Conn.Close() })
	return err
}
