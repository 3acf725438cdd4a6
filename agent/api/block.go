// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// maxBlock is the longest that a blocking query waits.
const maxBlock = 10 * time.Minute

// block waits, where the query has an index, until something has happened after it, at most the query's wait.
func (s *Server) block(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if query.Get("filter") != "" {
		return badRequest("filter expressions are not supported")
	}
	if r.Method != http.MethodGet || query.Get("index") == "" {
		return nil
	}
	index, err := strconv.ParseUint(query.Get("index"), 10, 64)
	if err != nil {
		return badRequest("invalid index: must be a number")
	}
	wait := s.blockFor
	if text := query.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
			return badRequest("invalid wait: must be a duration such as 30s")
		}
	}
	feed := s.agent.Feed()
	now := feed.Index()
	if index == 0 || index < now || wait == 0 {
		return nil
	}
	ctx, end, err := s.begin(r)
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

// begin takes one of the places for requests that last, and returns a context that ends with the request and with
// the server.
func (s *Server) begin(r *http.Request) (ctx context.Context, end func(), err error) {
	places := s.strangers
	if Trusted(r.Context()) {
		places = s.streams
	}
	select {
	case places <- struct{}{}:
	default:
		return nil, nil, &problem{http.StatusServiceUnavailable, "too many open streams"}
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := func() bool { return true }
	if ending, ok := r.Context().Value(endingKey{}).(context.Context); ok {
		stop = context.AfterFunc(ending, cancel)
	}
	return ctx, func() {
		stop()
		cancel()
		<-places
	}, nil
}

// setWriteDeadline gives the answer more time. Writers without deadlines are those of tests.
func setWriteDeadline(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}
