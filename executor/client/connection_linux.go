// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// restAfter is how long a connection stays open without a call: most calls come in groups.
const restAfter = 250 * time.Millisecond

// connection is a connection to an executor that is open only while there are calls. An open one holds six goroutines
// and some 60 KiB in this process, for each task, and a host has hundreds without news for hours.
type connection struct {
	dial    func() (*grpc.ClientConn, error)
	explain func(error) error // tells a lost executor from other faults

	mu     sync.Mutex       // guards following
	open   *grpc.ClientConn // nil without calls
	calls  int
	timer  *time.Timer // closes the connection after the last call
	closed bool
}

// acquire returns the open connection for one more call.
func (c *connection) acquire() (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, status.Error(codes.Canceled, "the connection to the executor was closed")
	}
	if c.open == nil {
		open, err := c.dial()
		if err != nil {
			return nil, err
		}
		c.open = open
	}
	c.calls++
	return c.open, nil
}

// release ends one call.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls > 0 || c.closed {
		return
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(restAfter, c.rest)
	} else {
		c.timer.Reset(restAfter)
	}
}

// rest closes the connection if there is no call.
func (c *connection) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 && c.open != nil {
		_ = c.open.Close() // it says only that it was closed before
		c.open = nil
	}
}

// close ends all calls.
func (c *connection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.open == nil {
		return nil
	}
	open := c.open
	c.open = nil
	return open.Close()
}

// Invoke implements grpc.ClientConnInterface.
func (c *connection) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	open, err := c.acquire()
	if err != nil {
		return err
	}
	defer c.release()
	return c.explain(open.Invoke(ctx, method, args, reply, options...))
}

// NewStream implements grpc.ClientConnInterface. The stream ends with its context, or when it is received from until
// an error.
func (c *connection) NewStream(
	ctx context.Context, d *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	open, err := c.acquire()
	if err != nil {
		return nil, err
	}
	stream, err := open.NewStream(ctx, d, method, options...)
	if err != nil {
		c.release()
		return nil, c.explain(err)
	}
	ended := sync.OnceFunc(c.release)
	return &countedStream{ClientStream: stream, connection: c, ended: ended, unwatch: context.AfterFunc(ctx, ended)}, nil
}

// countedStream is a stream that counts as a call until its end.
type countedStream struct {
	grpc.ClientStream
	connection *connection
	ended      func()
	unwatch    func() bool
}

// RecvMsg implements grpc.ClientStream.
func (s *countedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err != nil {
		s.unwatch()
		s.ended()
	}
	return s.connection.explain(err)
}
