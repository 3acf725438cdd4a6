// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// answers are the statuses that a request can lead to when the agent itself is well.
var answers = []int{200, 301, 307, 400, 403, 404, 405, 413, 415, 421, 426, 501, 503}

// words are what hostile requests are made of.
var words = []string{
	"v1", "jobs", "job", "web", "nightly", "allocation", "allocations", "client", "stats", "history", "record", "logs", "fs",
	"exec", "node", "nodes", "event", "stream", "metrics", "evaluation", "evaluations", "agent", "self", "stop", "restart",
	"signal", webID, batchID, nodeID, "..", ".", "%2e%2e", "%2f", "%00", "%ff", "", "etc", "passwd", "\u202e", "🦀", strings.Repeat("a", 3000),
	"task=web", "task=../../x", "type=stdout", "type=%2e%2e%2fetc", "offset=-1", "offset=9223372036854775807", "offset=18446744073709551616",
	"origin=end", "plain=true", "at=0", "at=-1", "at=1e309", "at=9999-12-31T23:59:59Z", "since=1ns", "until=-9223372036s", "step=1ns",
	"step=1e308", "measurements=all", "measurements=,,,", "pretty", "namespace=*", "prefix=1", "filter=x", "format=prometheus",
	"command=[]", "command=[%22x%22]", "tty=true", "purge=x", "topic=:", "topic=*:*", "index=1", "index=18446744073709551615",
	"wait=-1s", "wait=1ms", "status=complete", "job=web",
}

var bodies = []string{
	"", "{}", "[]", "null", "0", `"`, `{"Source":`, `{"Source":"x","Filename":"../../../etc/passwd"}`, `{"Job":{}}`, `{"Job":null}`,
	`{"Signal":"SIGKILL"}`, `{"Prefix":"1","Context":"all"}`, `{"Prefix":1}`, strings.Repeat("[", 100000), "\x00\xff", `{"TaskName":"web"}`,
	`{"JobHCL":"x","Variables":"a=1"}`,
}

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// hostile makes a request out of a path and words.
func hostile(t *testing.T, r *rand.Rand, path string) *http.Request {
	t.Helper()
	if r.IntN(3) == 0 {
		for range r.IntN(4) {
			path += "/" + pick(r, words)
		}
	}
	path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllStringFunc(path, func(string) string {
		return pick(r, append([]string{webID, batchID, nodeID, "web", "11"}, words...))
	})
	query := make([]string, r.IntN(5))
	for i := range query {
		query[i] = pick(r, words)
	}
	u := &url.URL{Scheme: "http", Host: "127.0.0.1", RawQuery: strings.Join(query, "&")}
	if plain, err := url.PathUnescape(path); err == nil {
		u.Path, u.RawPath = plain, path
	} else {
		u.Path = path
	}
	method := pick(r, []string{"GET", "GET", "GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "X"})
	request := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(pick(r, bodies)))
	request.URL, request.Host = u, pick(r, []string{"127.0.0.1", "localhost:1", "localhost", "[::1]:80", "evil", "", "a:b:c"})
	if r.IntN(2) == 0 {
		request.Header.Set("X-Nomad-Token", pick(r, []string{testToken, testToken, "x", "\xff"}))
	}
	return request
}

// TestHostileRequests asks ten thousand times. Streams end because the request's context does.
func TestHostileRequests(t *testing.T) {
	f := newFake()
	f.exec = &fakeExec{}
	s := newTestServer(f)
	s.blockFor = time.Millisecond
	// Streams are left out: without a connection nothing ends them.
	routes := append(s.routes(), route{path: "/v1/{}/{}"}, route{path: "/v1/client/fs/{}/{}"})
	handlers := []http.Handler{s.Handler(false), s.Handler(true)}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[int]int{}
	for i := range 10000 {
		request := hostile(t, r, routes[r.IntN(len(routes))].path)
		if path := request.URL.Path; strings.HasSuffix(path, "/stream") || request.URL.Query().Get("follow") != "" {
			continue
		}
		w := httptest.NewRecorder()
		handlers[i%2].ServeHTTP(w, request)
		seen[w.Code]++
		if !slices.Contains(answers, w.Code) {
			t.Errorf("%s %s: %d %.200s", request.Method, request.URL, w.Code, w.Body)
		}
		if trusted := i%2 == 1 || request.Header.Get("X-Nomad-Token") == testToken; !trusted && strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s %s tells a secret", request.Method, request.URL)
		}
	}
	t.Log(seen)
}
