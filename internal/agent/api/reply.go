// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// problem is an error that is the caller's, with the status to answer.
type problem struct {
	status int
	text   string
}

// Error returns what the caller reads.
func (p *problem) Error() string { return p.text }

var errUntrusted error = &problem{
	http.StatusForbidden,
	"this needs the agent's unix socket or its token (X-Nomad-Token, or Authorization: Bearer)",
}

func badRequest(text string) error { return &problem{http.StatusBadRequest, text} }

func notFound(text string) error { return &problem{http.StatusNotFound, text} }

// answer is what most paths do: look something up in what the agent knows now and return it as a value with a JSON form.
type answer func(r *http.Request, now *snapshot.Agent) (any, error)

// of is an answer about what a request's path names.
func of[T any](find func(*http.Request, *snapshot.Agent) (T, error), a func(*http.Request, *snapshot.Agent, T) (any, error)) answer {
	return func(r *http.Request, now *snapshot.Agent) (any, error) {
		found, err := find(r, now)
		if err != nil {
			return nil, err
		}
		return a(r, now, found)
	}
}

// nothing answers what none of its kind has here.
func nothing[T any](value any) func(*http.Request, *snapshot.Agent, T) (any, error) {
	return func(*http.Request, *snapshot.Agent, T) (any, error) { return value, nil }
}

// json serves an answer.
func (s *Server) json(a answer) http.HandlerFunc {
	return s.jsonOf(a, func(*http.Request) *snapshot.Agent { return s.agent.Snapshot() })
}

// jsonOfAllocation serves an answer about the allocation of a request's path, which needs to know no other: it is asked for
// often, and there can be hundreds of them.
func (s *Server) jsonOfAllocation(a func(*http.Request, *snapshot.Agent, *allocation.Allocation) (any, error)) http.HandlerFunc {
	return s.jsonOf(of(allocationOf, a), func(r *http.Request) *snapshot.Agent {
		if now := s.agent.Snapshot(strings.ToLower(r.PathValue("id"))); len(now.Allocations) == 1 {
			return now
		}
		return s.agent.Snapshot() // a prefix, or none
	})
}

// jsonOf serves an answer from a snapshot.
func (s *Server) jsonOf(a answer, look func(*http.Request) *snapshot.Agent) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.block(w, r); err != nil {
			s.fail(w, r, err)
			return
		}
		now := look(r)
		value, err := a(r, now)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if value, err = filtered(r, value); err != nil {
			s.fail(w, r, err)
			return
		}
		if value, err = page(w, r, value); err != nil {
			s.fail(w, r, err)
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if _, pretty := r.URL.Query()["pretty"]; pretty {
			var indented bytes.Buffer
			if json.Indent(&indented, text, "", "    ") == nil {
				text = indented.Bytes()
			}
		}
		setWriteDeadline(w, writeTimeout) // the work may have taken longer
		header := w.Header()
		header.Set("Content-Type", "application/json")
		header.Set("X-Nomad-Index", strconv.FormatUint(max(1, now.Index), 10))
		header.Set("X-Nomad-Knownleader", "true")
		header.Set("X-Nomad-Lastcontact", "0")
		_, _ = w.Write(append(text, '\n')) // a client that went away is not an error of ours
	}
}

// page returns the part of a list that ?per_page= and ?next_token= ask for, and names the first of the next in a header.
func page(w http.ResponseWriter, r *http.Request, value any) (any, error) {
	p := paramsOf(r)
	size, token := p.number("per_page"), p.values.Get("next_token")
	list := reflect.ValueOf(value)
	if p.err != nil || size == 0 || list.Kind() != reflect.Slice || list.Len() == 0 {
		return value, p.err
	}
	id := func(i int) string {
		if field := reflect.Indirect(list.Index(i)); field.Kind() == reflect.Struct && field.FieldByName("ID").IsValid() {
			return field.FieldByName("ID").String()
		}
		return strconv.Itoa(i)
	}
	first := 0
	for token != "" && id(first) != token {
		if first++; first == list.Len() {
			return nil, badRequest(fmt.Sprintf("invalid next_token %q: nothing in the list has this id", token))
		}
	}
	last := list.Len()
	if size < uint64(last-first) {
		last = first + int(size)
		w.Header().Set("X-Nomad-Nexttoken", id(last))
	}
	return list.Slice(first, last).Interface(), nil
}

// trustedJSON serves an answer to trusted callers only.
func (s *Server) trustedJSON(a answer) http.HandlerFunc { return s.needsTrust(s.json(a)) }

// index is that of the newest event, at least 1: clients take 0 for no index at all and ask again at once.
func (s *Server) index() uint64 { return max(1, s.agent.Feed().Index()) }

// fail answers with an error, as text. What is the agent's fault is logged too, and not that a client went away.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
		w.Header().Set("Connection", "close") // the descriptor is scarce as well
	}
	setWriteDeadline(w, writeTimeout)
	http.Error(w, err.Error(), status)
}

func statusOf(err error) int {
	var p *problem
	var diagnostic *hcl.Diagnostic
	var size *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p.status
	case errors.As(err, &size):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, allocation.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, driver.ErrTaskNotFound):
		return http.StatusNotFound
	case errors.As(err, &diagnostic), errors.Is(err, allocation.ErrAmbiguous), errors.Is(err, hook.ErrNotRunning),
		errors.Is(err, driver.ErrTaskNotRunning), errors.Is(err, driver.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, driver.ErrNotSupported), errors.Is(err, errors.ErrUnsupported):
		return http.StatusNotImplemented
	case errors.Is(err, driver.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// readBody decodes a request's JSON body.
func readBody(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	err := decoder.Decode(into)
	var size *http.MaxBytesError
	switch {
	case errors.As(err, &size):
		return size
	case errors.Is(err, io.EOF):
		return badRequest("the request has no body")
	case err != nil:
		return badRequest("invalid JSON body: " + jsonText(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badRequest("invalid JSON body: data after the JSON value")
	}
	return nil
}

// jsonText says in words of JSON what does not fit: a message of encoding/json names types of Go.
func jsonText(err error) string {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err.Error()
	}
	must := "must be " + kindText(mismatch.Type)
	if mismatch.Field == "" {
		return must
	}
	return mismatch.Field + ": " + must
}

// kindText is what a value of a type is in JSON.
func kindText(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return kindText(t.Elem())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number, 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	default:
		return "a number"
	}
}
