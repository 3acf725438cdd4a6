// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tachograph/tacho/internal/agent/streams"
)

// errTooManyStreams refuses a stream if too many of its kind are open.
var errTooManyStreams = &problem{http.StatusServiceUnavailable, "too many open streams"}

// maxBlock is the longest time that a blocking query waits.
const maxBlock = 10 * time.Minute

// block waits, if the query has an index, until there is a later event, at most the query's wait.
func (s *Server) block(w http.ResponseWriter, q *request) error {
	if q.Method != http.MethodGet {
		return nil
	}
	index, wait := q.number("index"), q.duration("wait", s.blockFor)
	if q.err != nil {
		return q.err
	}
	feed := s.agent.Feed()
	now := feed.Index()
	if index == 0 || index < now || wait == 0 {
		return nil
	}
	ctx, end, err := s.begin(q, streams.Trusted)
	if err != nil {
		return err
	}
	defer end()
	wait = min(wait, maxBlock)
	setWriteDeadline(w, wait+writeTimeout)
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, err = feed.Subscribe(now).Next(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// begin counts a stream of a kind, untrusted if the caller is, and returns a context that ends with the request and
// with the server.
func (s *Server) begin(q *request, kind streams.Kind) (ctx context.Context, end func(), err error) {
	if !q.trusted {
		kind = streams.Untrusted
	}
	leave, ok := s.options.Streams.Enter(kind)
	if !ok {
		return nil, nil, errTooManyStreams
	}
	ctx, cancel := context.WithCancel(q.Context())
	stop := func() bool { return true }
	if ending, ok := q.Context().Value(endingKey{}).(context.Context); ok {
		stop = context.AfterFunc(ending, cancel)
	}
	return ctx, func() {
		stop()
		cancel()
		leave()
	}, nil
}

// stream serves a request that counts as a stream of a kind.
func (s *Server) stream(
	kind streams.Kind, serve func(context.Context, http.ResponseWriter, *request) error,
) handler {
	return func(w http.ResponseWriter, q *request) error {
		ctx, end, err := s.begin(q, kind)
		if err != nil {
			return err
		}
		defer end()
		return serve(ctx, w, q)
	}
}

// newStreamWriter is patient with trusted callers: people page through logs.
func (s *Server) newStreamWriter(w http.ResponseWriter, q *request) streams.Writer {
	if q.trusted {
		return streams.Writer{To: w, Stall: s.patience}
	}
	return streams.Writer{To: w, Stall: s.stall}
}

// setWriteDeadline extends the time for the response. Writers without deadlines are those of tests.
func setWriteDeadline(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}
