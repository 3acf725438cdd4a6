// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// problem is an error of the caller, with the status of the response.
type problem struct {
	status int
	text   string
}

// Error returns the text for the caller.
func (p *problem) Error() string { return p.text }

var (
	errUntrusted error = &problem{
		http.StatusForbidden,
		"this needs the agent's unix socket or its token (X-Nomad-Token, or Authorization: Bearer)",
	}
	errOtherOrigin error = &problem{http.StatusForbidden, "request from a page of another origin"}
	errUnknownHost error = &problem{
		http.StatusMisdirectedRequest, "unknown Host header: ask for localhost or the address the agent listens on",
	}
)

func badRequest(text string) error { return &problem{http.StatusBadRequest, text} }

func notFound(text string) error { return &problem{http.StatusNotFound, text} }

// handler serves a request. Its error, from before the first byte, becomes the response.
type handler func(http.ResponseWriter, *request) error

// answer returns a value with a JSON form. Invalid parameters that it read are answered with their error.
type answer func(*request) (any, error)

// of is an answer about what find finds.
func of[T any](find func(*request) (T, error), a func(*request, T) (any, error)) answer {
	return func(q *request) (any, error) {
		found, err := find(q)
		if err != nil {
			return nil, err
		}
		return a(q, found)
	}
}

// json serves an answer.
func (s *Server) json(a answer) handler {
	return s.jsonFrom(func(*request) *snapshot.Agent { return s.agent.Snapshot() }, a)
}

// jsonOfAllocation serves an answer about the allocation in the path, from a snapshot without the others: it is
// requested often, and there can be hundreds of them.
func (s *Server) jsonOfAllocation(a func(*request, *allocation.Allocation) (any, error)) handler {
	return s.jsonFrom(func(q *request) *snapshot.Agent {
		if now := s.agent.Snapshot(q.id()); len(now.Allocations) == 1 {
			return now
		}
		return s.agent.Snapshot() // a prefix, or unknown
	}, of(allocationOf, a))
}

// jsonFrom serves an answer from a snapshot.
func (s *Server) jsonFrom(look func(*request) *snapshot.Agent, a answer) handler {
	return func(w http.ResponseWriter, q *request) error {
		if err := s.block(w, q); err != nil {
			return err
		}
		q.now = look(q)
		value, err := a(q)
		if err = cmp.Or(q.err, err); err != nil {
			return err
		}
		if value, err = q.filter(value); err != nil {
			return err
		}
		if value, err = q.page(w.Header(), value); err != nil {
			return err
		}
		marshal := json.Marshal
		if q.values.Has("pretty") {
			marshal = func(value any) ([]byte, error) { return json.MarshalIndent(value, "", "    ") }
		}
		text, err := marshal(value)
		if err != nil {
			return err
		}
		setWriteDeadline(w, writeTimeout) // the work may have taken longer
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("X-Nomad-Index", strconv.FormatUint(max(1, q.now.Index), 10))
		header.Set("X-Nomad-Knownleader", "true")
		header.Set("X-Nomad-Lastcontact", "0")
		_, _ = w.Write(append(text, '\n')) // a client that went away is not an error of ours
		return nil
	}
}

// index returns the index of the newest event, at least 1: clients take 0 for no index and ask again at once.
func (s *Server) index() uint64 { return max(1, s.agent.Feed().Index()) }

// fail responds with an error, as text. It logs faults of the agent, except for clients that went away.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
		w.Header().Set("Connection", "close") // descriptors are scarce, too
	}
	setWriteDeadline(w, writeTimeout)
	http.Error(w, err.Error(), status)
}

func statusOf(err error) int {
	if p, ok := errors.AsType[*problem](err); ok {
		return p.status
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge
	}
	if _, ok := errors.AsType[*hcl.Diagnostic](err); ok {
		return http.StatusBadRequest
	}
	for _, known := range []struct {
		err    error
		status int
	}{
		{allocation.ErrNotFound, http.StatusNotFound},
		{fs.ErrNotExist, http.StatusNotFound},
		{driver.ErrTaskNotFound, http.StatusNotFound},
		{allocation.ErrAmbiguous, http.StatusBadRequest},
		{hook.ErrNotRunning, http.StatusBadRequest},
		{allocation.ErrWatched, http.StatusConflict},
		{driver.ErrTaskNotRunning, http.StatusBadRequest},
		{driver.ErrInvalid, http.StatusBadRequest},
		{driver.ErrNotSupported, http.StatusNotImplemented},
		{errors.ErrUnsupported, http.StatusNotImplemented},
		{driver.ErrUnavailable, http.StatusServiceUnavailable},
		{allocation.ErrRecovering, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, known.err) {
			return known.status
		}
	}
	return http.StatusInternalServerError
}
