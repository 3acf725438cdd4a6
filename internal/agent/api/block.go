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

// errTooManyStreams refuses a stream of a kind that has no room left.
var errTooManyStreams = &problem{http.StatusServiceUnavailable, "too many open streams"}

// maxBlock is the longest that a blocking query waits.
const maxBlock = 10 * time.Minute

// block waits, if the query has an index, until something has happened after it, at most the query's wait.
func (s *Server) block(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r)
	if r.Method != http.MethodGet {
		return nil
	}
	index, wait := p.number("index"), p.duration("wait", s.blockFor)
	if p.err != nil {
		return p.err
	}
	feed := s.agent.Feed()
	now := feed.Index()
	if index == 0 || index < now || wait == 0 {
		return nil
	}
	ctx, end, err := s.begin(r, streams.Trusted)
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

// begin takes the place of a stream of a kind, which is untrusted if the request is, and returns a context that ends
// with the request and with the server.
func (s *Server) begin(r *http.Request, kind streams.Kind) (ctx context.Context, end func(), err error) {
	if !Trusted(r.Context()) {
		kind = streams.Untrusted
	}
	leave, ok := s.options.Streams.Enter(kind)
	if !ok {
		return nil, nil, errTooManyStreams
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := func() bool { return true }
	if ending, ok := r.Context().Value(endingKey{}).(context.Context); ok {
		stop = context.AfterFunc(ending, cancel)
	}
	return ctx, func() {
		stop()
		cancel()
		leave()
	}, nil
}

// stream serves a request that takes the place of a stream of a kind. It answers with the error that serve returns, which
// is before the first byte.
func (s *Server) stream(kind streams.Kind, serve func(context.Context, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, end, err := s.begin(r, kind)
		if err == nil {
			defer end()
			err = serve(ctx, w, r)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	}
}

// newStreamWriter is patient with trusted requests: a reader may page through a log.
func (s *Server) newStreamWriter(w http.ResponseWriter, r *http.Request) streams.Writer {
	if Trusted(r.Context()) {
		return streams.Writer{To: w, Stall: s.patience}
	}
	return streams.Writer{To: w, Stall: s.stall}
}

// setWriteDeadline gives the answer more time. Writers without deadlines are those of tests.
func setWriteDeadline(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}
