// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/hcl/v2"
	"github.com/mitchellh/pointerstructure"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// request is an HTTP request with its query, its caller and the state of the agent.
type request struct {
	*http.Request

	values url.Values
	// err describes the first invalid parameter that was read.
	err     error
	trusted bool
	// now is nil for streams, which look again and again.
	now *snapshot.Agent
}

func newRequest(r *http.Request) *request {
	return &request{Request: r, values: r.URL.Query(), trusted: Trusted(r.Context())}
}

// id returns the id, or the prefix of one, in the path.
func (q *request) id() string { return strings.ToLower(q.PathValue("id")) }

// inNamespace reports whether the request covers a namespace: the one it names, or all if it names none.
func (q *request) inNamespace(namespace string) bool {
	asked := q.values.Get("namespace")
	return asked == "" || asked == "*" || asked == namespace
}

// jobOf returns the job in the path.
func jobOf(q *request) (*snapshot.Job, error) {
	j, err := q.now.Job(q.PathValue("id"))
	if err == nil && !q.inNamespace(j.Job.Namespace) {
		err = notFound("job not found in this namespace")
	}
	return j, err
}

// allocationOf returns the allocation in the path.
func allocationOf(q *request) (*allocation.Allocation, error) { return q.now.Allocation(q.id()) }

// checkTask rejects the name of a task that the allocation does not have; empty means all tasks.
func checkTask(a *allocation.Allocation, task string) error {
	if _, ok := a.Tasks[task]; !ok && task != "" {
		return allocation.NoTask(a.ID, task, slices.Collect(maps.Keys(a.Tasks)))
	}
	return nil
}

// tasksOf returns the names of the tasks that ?task= selects, in order.
func (q *request) tasksOf(a *allocation.Allocation) ([]string, error) {
	task := q.values.Get("task")
	if task == "" {
		return slices.Sorted(maps.Keys(a.Tasks)), nil
	}
	return []string{task}, checkTask(a, task)
}

// onlyTask returns the one task that ?task= selects, which is optional if the allocation has only one.
func (q *request) onlyTask(a *allocation.Allocation) (string, error) {
	tasks, err := q.tasksOf(a)
	switch {
	case err != nil:
		return "", err
	case len(tasks) != 1:
		return "", badRequest("the allocation has several tasks; name one with ?task=NAME")
	}
	return tasks[0], nil
}

// errInvalid makes param say what the value must be.
var errInvalid = errors.New("invalid")

// param reads one parameter; otherwise is the value of an absent one.
func param[T any](q *request, name string, otherwise T, must string, parse func(string) (T, error)) T {
	text := q.values.Get(name)
	if text == "" || q.err != nil {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		q.err = badRequest(fmt.Sprintf("invalid %s %q: must be %s", name, text, must))
		return otherwise
	}
	return value
}

func (q *request) flag(name string) bool {
	return param(q, name, false, "true or false", strconv.ParseBool)
}

func (q *request) number(name string) uint64 {
	return param(q, name, 0, "a whole number, 0 or more", func(text string) (uint64, error) {
		return strconv.ParseUint(text, 10, 63)
	})
}

// duration reads a duration, or seconds.
func (q *request) duration(name string, otherwise time.Duration) time.Duration {
	return param(q, name, otherwise, "a duration such as 10s, 0 or more", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if seconds, notNumber := strconv.ParseFloat(text, 64); notNumber == nil && seconds < 1e9 {
			d, err = time.Duration(seconds*float64(time.Second)), nil
		}
		if d < 0 {
			return 0, errInvalid
		}
		return d, err
	})
}

// timeForms are the ways to write a point in time.
const timeForms = "RFC 3339, seconds since 1970, or an age such as 5m"

// time reads a point in time; zero if it is absent.
func (q *request) time(name string, now time.Time) time.Time {
	return param(q, name, time.Time{}, "a time: "+timeForms, func(text string) (time.Time, error) {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return at, nil
		}
		if d, err := time.ParseDuration(text); err == nil {
			return now.Add(-d.Abs()), nil
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if !(seconds > 0 && seconds < 1<<33) {
			err = errInvalid
		}
		return time.UnixMicro(int64(seconds * 1e6)), err
	})
}

// either reads one of two words.
func (q *request) either(name, otherwise, a, b string) string {
	return param(q, name, otherwise, a+" or "+b, func(text string) (string, error) {
		if text != a && text != b {
			return "", errInvalid
		}
		return text, nil
	})
}

// readBody decodes the JSON body.
func (q *request) readBody(into any) error {
	decoder := json.NewDecoder(q.Body)
	err := decoder.Decode(into)
	if size, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return size
	}
	if errors.Is(err, io.EOF) {
		return badRequest("the request has no body")
	}
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("data after the JSON value")
		}
	}
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its message names types of Go
		err = errors.New("must be " + kindText(mismatch.Type))
		if mismatch.Field != "" {
			err = fmt.Errorf("%s: %w", mismatch.Field, err)
		}
	}
	if err != nil {
		return badRequest("invalid JSON body: " + err.Error())
	}
	return nil
}

// kindText names the JSON form of a type.
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
	case reflect.Uint64:
		return "a whole number, 0 or more"
	default:
		return "a whole number"
	}
}

// The bounds of a filter: an expression can nest, and is parsed with backtracking.
const (
	maxFilter            = 1024
	maxFilterExpressions = 50_000
)

// filter returns the elements of a list that match the expression of ?filter=, in the language of Nomad's API, over
// the names of the JSON. It sees what the caller sees.
func (q *request) filter(value any) (any, error) {
	text := q.values.Get("filter")
	list := reflect.ValueOf(value)
	if text == "" {
		return value, nil
	}
	if list.Kind() != reflect.Slice {
		return nil, badRequest("filter: the answer is not a list")
	}
	if len(text) > maxFilter {
		return nil, badRequest(fmt.Sprintf("filter: %d bytes; an expression can have %d", len(text), maxFilter))
	}
	evaluator, err := bexpr.CreateEvaluator(text, bexpr.WithMaxExpressions(maxFilterExpressions))
	if err != nil {
		return nil, badRequest("failed to read filter expression: " + err.Error())
	}
	kept := reflect.MakeSlice(list.Type(), 0, list.Len())
	unknown := 0
	var last error
	for i := range list.Len() {
		element, err := treeOf(list.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		switch matches, err := evaluator.Evaluate(element); {
		case errors.Is(err, pointerstructure.ErrNotFound): // left out of this element, perhaps because it is empty
			unknown, last = unknown+1, err
		case err != nil:
			return nil, badRequest("failed to evaluate filter expression: " + err.Error())
		case matches:
			kept = reflect.Append(kept, list.Index(i))
		}
	}
	if unknown > 0 && unknown == list.Len() {
		return nil, badRequest("failed to evaluate filter expression: " + last.Error())
	}
	return kept.Interface(), nil
}

// treeOf returns the maps and slices of a value's JSON.
func treeOf(v any) (tree any, err error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &tree)
	}
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	if object, ok := tree.(map[string]any); ok {
		if _, isJob := v.(apijson.JobStub); isJob { // Nomad filters jobs, in which these are objects
			object["Periodic"], object["ParameterizedJob"] = (*struct{})(nil), (*struct{})(nil)
		}
	}
	return tree, nil
}

// page returns the part of a list that ?per_page= and ?next_token= select. A header has the token of the next part.
func (q *request) page(header http.Header, value any) (any, error) {
	size, token := q.number("per_page"), q.values.Get("next_token")
	list := reflect.ValueOf(value)
	if q.err != nil || size == 0 || list.Kind() != reflect.Slice || list.Len() == 0 {
		return value, q.err
	}
	id := func(i int) string {
		element := reflect.Indirect(list.Index(i))
		if element.Kind() == reflect.Struct && element.FieldByName("ID").IsValid() {
			return element.FieldByName("ID").String()
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
		header.Set("X-Nomad-Nexttoken", id(last))
	}
	return list.Slice(first, last).Interface(), nil
}

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
