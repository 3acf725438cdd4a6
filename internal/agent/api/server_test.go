// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/testkit"
)

const testToken = "a-token-for-tests"

var update = flag.Bool("update", false, "write golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestServer(f *fakeAgent) *Server {
	s := New(f, Options{Token: theToken, Hosts: []string{"Tacho.Example"}})
	s.now, s.denials.longest = func() time.Time { return epoch }, 0
	return s
}

// ask sends one request over TCP without the token, unless edits say otherwise.
func ask(t *testing.T, h http.Handler, method, path, body string, edits ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:4656"+path, strings.NewReader(body))
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// get reads the JSON of an answer.
func get(t *testing.T, h http.Handler, path string, into any, edits ...func(*http.Request)) {
	t.Helper()
	w := ask(t, h, "GET", path, "", edits...)
	if err := json.Unmarshal(w.Body.Bytes(), into); w.Code != http.StatusOK || err != nil {
		t.Fatalf("%s: %d, %v\n%s", path, w.Code, err, w.Body)
	}
}

func theToken() string { return testToken }

func withToken(r *http.Request) { r.Header.Set("X-Nomad-Token", testToken) }

// reads are paths that everybody may read, each with the name of its golden file.
var reads = map[string]string{
	"jobs":              "/v1/jobs?pretty",
	"job":               "/v1/job/web?pretty",
	"job_allocations":   "/v1/job/web/allocations?pretty",
	"job_summary":       "/v1/job/web/summary?pretty",
	"job_evaluations":   "/v1/job/web/evaluations?pretty",
	"job_deployment":    "/v1/job/web/deployment?pretty",
	"job_deployments":   "/v1/job/web/deployments?pretty",
	"job_versions":      "/v1/job/web/versions?pretty",
	"job_scale":         "/v1/job/web/scale?pretty",
	"allocations":       "/v1/allocations?prefix=1111&pretty",
	"allocation":        "/v1/allocation/" + webID + "?pretty",
	"allocation_failed": "/v1/allocation/" + batchID + "?pretty",
	"checks":            "/v1/client/allocation/" + webID + "/checks?pretty",
	"stats":             "/v1/client/allocation/" + webID + "/stats?pretty",
	"stats_failed":      "/v1/client/allocation/" + batchID + "/stats?task=web&pretty",
	"stats_at":          "/v1/client/allocation/" + webID + "/stats?at=2026-08-12T09:00:00Z&pretty",
	"history":           "/v1/client/allocation/" + webID + "/stats/history?since=5m&step=10s&pretty",
	"history_absent":    "/v1/client/allocation/" + webID + "/stats/history?measurements=disk,smaps_pss_bytes,cgroup_memory_max_bytes&pretty",
	"record":            "/v1/client/allocation/" + batchID + "/record?pretty",
	"client_stats":      "/v1/client/stats?pretty",
	"node":              "/v1/node/" + nodeID + "?pretty",
	"node_allocations":  "/v1/node/" + nodeID + "/allocations?pretty",
	"evaluations":       "/v1/evaluations?pretty",
	"leader":            "/v1/status/leader",
	"regions":           "/v1/regions",
	"namespaces":        "/v1/namespaces",
	"volumes":           "/v1/volumes?type=csi",
	"health":            "/v1/agent/health?pretty",
}

// TestReads holds the answers to their golden files, and to tell no secrets; with the token they do.
func TestReads(t *testing.T) {
	h := newTestServer(newFake()).Handler(false)
	for name, path := range reads {
		t.Run(name, func(t *testing.T) {
			w := ask(t, h, "GET", path, "")
			if w.Code != http.StatusOK || w.Header().Get("X-Nomad-Index") != "40" || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d, %v", w.Code, w.Header())
			}
			if strings.Contains(w.Body.String(), secret) {
				t.Error("a secret is shown without the token")
			}
			golden(t, name+".json", w.Body.String())
		})
	}
	const client = "/v1/client/allocation/"
	for _, path := range []string{
		"/v1/nodes", "/v1/agent/self", "/v1/agent/members", "/v1/metrics", "/v1/metrics?format=prometheus", "/metrics", client + webID + "/commands",
		client + webID + "/stats?process=server", client + webID + "/stats/history?process=server", client + batchID + "/stats/stream",
	} {
		if w := ask(t, h, "GET", path, ""); w.Code != http.StatusOK || strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{
		reads["job"], reads["job_versions"], reads["allocation"], reads["node_allocations"], reads["record"], reads["node"], reads["stats"], "/v1/agent/self",
		"/v1/job/web/submission",
	} {
		if w := ask(t, h, "GET", path, "", withToken); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), secret) {
			t.Errorf("%s with the token: %d, or what is left out without it is left out here too", path, w.Code)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := testkit.Value(os.ReadFile(file))(t)
	testkit.Diff(t, "result", string(want), got)
}

// TestAllStats holds that what is answered for all is what is answered for each that has not ended.
func TestAllStats(t *testing.T) {
	f := newFake()
	h := newTestServer(f).Handler(false)
	w := ask(t, h, "GET", "/v1/client/allocations/stats", "")
	var all map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &all); w.Code != http.StatusOK || err != nil {
		t.Fatal(w.Code, err, w.Body)
	}
	if strings.Contains(w.Body.String(), secret) {
		t.Error("a secret is shown without the token")
	}
	want := map[string]any{}
	for _, a := range f.allocs {
		if a.ClientStatus.Ended() {
			continue
		}
		var one any
		get(t, h, "/v1/client/allocation/"+a.ID+"/stats", &one)
		want[a.ID] = one
	}
	if diff := cmp.Diff(want, all); diff != "" || len(want) == 0 || len(want) == len(f.allocs) {
		t.Errorf("%d of %d allocations: %s", len(want), len(f.allocs), diff)
	}
}

func TestPublishingOff(t *testing.T) {
	f := newFake()
	f.publishing = false
	w := ask(t, newTestServer(f).Handler(false), "GET", reads["stats"], "")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"reason": "publish_allocation_metrics is off"`) {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	golden(t, "stats_off.json", w.Body.String())
}

// TestStatuses is what is refused, and how.
func TestStatuses(t *testing.T) {
	f := newFake()
	f.allocs[0].Dir = datadir.Allocation(t.TempDir())
	testkit.Must(t, os.MkdirAll(f.allocs[0].Dir.Logs(), 0o700))
	h := newTestServer(f).Handler(false)
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	origin := func(from string) func(*http.Request) {
		return func(r *http.Request) {
			withToken(r)
			r.Host = "localhost"
			r.Header.Set("Origin", from)
		}
	}
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken) }
	wrong := func(r *http.Request) { r.Header.Set("X-Nomad-Token", testToken+"x") }
	client := "/v1/client/allocation/" + webID + "/"
	tests := []struct {
		method, path, body string
		edit               func(*http.Request)
		status             int
		text               string
	}{
		{"GET", "/v1/nothing", "", nil, 404, "no such path"},
		{"GET", "/", "", nil, 404, ""},
		{"GET", "/v1/job/none", "", nil, 404, "not found"},
		{"GET", "/v1/job/web?namespace=other", "", nil, 404, "namespace"},
		{"GET", "/v1/allocation/1111", "", nil, 200, webID},
		{"GET", "/v1/allocation/11", "", nil, 400, "ambiguous"},
		{"GET", "/v1/allocation/ff", "", nil, 404, "not found"},
		{"GET", "/v1/node/ff", "", nil, 404, "there is one"},
		{"GET", "/v1/evaluation/ff", "", nil, 404, "not found"},
		{"GET", "/v1/deployment/ff", "", nil, 404, "has none"},
		{"DELETE", "/v1/jobs", "", withToken, 405, ""},
		{"POST", "/v1/nodes", "", nil, 405, ""},
		{"GET", "/v1/jobs?index=x", "", nil, 400, `invalid index "x": must be a whole number, 0 or more`},
		{"GET", "/v1/jobs?index=40&wait=x", "", nil, 400, `invalid wait "x": must be a duration such as 10s, 0 or more`},
		{"GET", "/v1/jobs?filter=x", "", nil, 400, "filter"},
		{"GET", client + "stats?task=none", "", nil, 404, `allocation 11111111 has no task "none", only web`},
		{"GET", client + "stats?at=noon", "", nil, 400, `invalid at "noon": must be a time: RFC 3339`},
		{"GET", client + "stats/history?since=x", "", nil, 400, `since "x": must be a time`},
		{"GET", client + "stats/history?since=1m&until=2m", "", nil, 400, "until is before since"},
		{"GET", client + "stats/history?step=-1s", "", nil, 400, `invalid step "-1s": must be a duration`},
		{"GET", client + "stats/history?measurements=cpu_corse", "", nil, 400, "cpu_cores"},
		{"GET", client + "record", "", nil, 404, "not found"},
		{"GET", "/v1/metrics?format=x", "", nil, 400, "format"},

		{"PUT", "/v1/jobs", `{"Source":"x"}`, nil, 403, "token"},
		{"PUT", "/v1/jobs", `{"Source":"x"}`, wrong, 403, "invalid token"},
		{"GET", "/v1/jobs", "", wrong, 403, "invalid token"},
		{"PUT", "/v1/jobs", `{"Source":"x"}`, bearer, 200, "EvalID"},

		{"PUT", "/v1/jobs", `{"Job":{"ID":"x"},"Submission":{"Source":"x","Format":"hcl2","VariableFlags":{"a":"b"}}}`, withToken, 200, "EvalID"},
		{"PUT", "/v1/jobs", `{}`, withToken, 400, "text of a job file"},
		{"PUT", "/v1/jobs", ``, withToken, 400, "no body"},
		{"PUT", "/v1/jobs", `[]`, withToken, 400, "invalid JSON body: must be an object\n"},
		{"PUT", "/v1/jobs", `{"Source": 1}`, withToken, 400, "invalid JSON body: Source: must be a string\n"},
		{"PUT", "/v1/jobs", `{"JobModifyIndex": -1}`, withToken, 400, "invalid JSON body: JobModifyIndex: must be a whole number, 0 or more\n"},
		{"PUT", "/v1/jobs", `{"Submission": {"Source": []}}`, withToken, 400, "invalid JSON body: Submission.Source: must be a string\n"},
		{"PUT", "/v1/jobs", `{"Source":"x"} x`, withToken, 400, "data after the JSON value"},
		{"PUT", "/v1/jobs", `{"Source":"` + strings.Repeat("x", maxBody) + `"}`, withToken, 413, "too large"},
		{"PUT", "/v1/jobs", `{"Source":"broken","Filename":"a.hcl"}`, withToken, 400, "a.hcl:3,5-0,0: Unsupported block"},
		{"PUT", "/v1/job/other", `{"Source":"x"}`, withToken, 400, "path"},
		{"POST", "/v1/validate/job", `{"Source":"broken"}`, withToken, 200, "Unsupported block"},
		{"POST", "/v1/jobs/parse", `{"JobHCL":"x"}`, withToken, 200, `"ID":"web"`},
		{"PUT", client + "signal", "{}", withToken, 400, "no signal"},
		{"PUT", client + "signal", `{"Signal":"SIGHUP","Task":"none"}`, withToken, 404, "no task"},
		{"PUT", "/v1/client/allocation/" + batchID + "/restart", `{"AllTasks":true}`, withToken, 400, "ended"},
		{"PUT", "/v1/jobs", `{"Job": []}`, withToken, 400, "job's JSON: must be an object\n"},
		{"PUT", "/v1/jobs", `{"Job": {"ID": "web"}, "EnforceIndex": true, "JobModifyIndex": 3}`, withToken, 400, "conflicting job modify index: 20"},
		{"PUT", "/v1/jobs", `{"Job": {"ID": "web"}, "EnforceIndex": true, "JobModifyIndex": 20}`, withToken, 200, "EvalID"},
		{"PUT", "/v1/jobs", `{"Job": {"ID": "web"}, "PreserveResources": true}`, withToken, 400, "PreserveResources: not supported"},
		{"PUT", "/v1/jobs?namespace=prod", `{"Source": "x"}`, withToken, 400, `the job is of namespace "default" and the request of "prod"`},
		{"PUT", "/v1/jobs?namespace=default", `{"Source": "x"}`, withToken, 200, "EvalID"},
		{"PUT", "/v1/job/web/scale?namespace=prod", `{"Count": 3, "Target": {"Group": "cache"}}`, withToken, 404, "namespace"},
		{"PUT", "/v1/job/web/plan", `{"Job": {"ID": "web"}}`, withToken, 200, `"destroy":2`},
		{"PUT", "/v1/job/web/scale", `{"Count": 3, "Target": {"Group": "cache"}}`, withToken, 200, "EvalID"},
		{"PUT", "/v1/job/web/scale", `{"Count": 3}`, withToken, 400, "Target"},
		{"PUT", "/v1/search/fuzzy", `{"Text": "ACH"}`, withToken, 501, "not supported by the embedded agent: search"},
		{"GET", "/v1/jobs?per_page=1", "", nil, 200, `"ID":"`},
		{"GET", "/v1/jobs?per_page=1&next_token=none", "", nil, 400, `invalid next_token "none": nothing in the list has this id`},
		{"PUT", "/v1/job/web/plan", `{}`, withToken, 400, "needs a job"},
		{"PUT", "/v1/job/web/dispatch", `{}`, withToken, 501, "job dispatch"},
		{"GET", "/v1/client/fs/ls/" + webID + "?path=web/secrets", "", withToken, 403, "secrets"},
		{"GET", "/v1/client/fs/cat/" + webID + "?path=../../../etc/passwd", "", withToken, 404, "no such file"},
		{"GET", "/v1/client/fs/logs/" + webID + "?type=x", "", withToken, 400, "stdout or stderr"},
		{"GET", "/v1/client/fs/logs/" + webID + "?type=stderr", "", withToken, 404, "written nothing"},
		{"GET", "/v1/client/fs/logs/" + batchID + "?type=stdout&follow=true", "", withToken, 404, "the job disables the logs"},
		{"GET", "/v1/event/stream?topic=Foo", "", nil, 400, "unknown topic Foo"},
		{"GET", "/v1/client/fs/logs/" + webID + "?type=stdout&task=../x", "", withToken, 404, "no task"},
		{"GET", "/v1/client/fs/logs/" + webID + "?type=stdout&offset=-1", "", withToken, 400, `invalid offset "-1": must be a whole number, 0 or more`},

		{"GET", "/v1/jobs", "", host("evil.example"), 421, "Host"},
		{"GET", "/v1/jobs", "", host("LOCALHOST:1"), 200, ""},
		{"GET", "/v1/jobs", "", host("tacho.example:80"), 200, ""},

		{"PUT", client + "restart", `{}`, origin("https://evil.example"), 403, "another origin"},
		{"PUT", client + "restart", `{}`, origin("null"), 403, "another origin"},
		{"PUT", client + "restart", `{}`, origin("http://localhost:80"), 403, "another origin"},
		{"PUT", client + "restart", `{}`, origin("http://localhost"), 200, ""},
		{"GET", "/v1/jobs", "", origin("https://evil.example"), 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			edit := tt.edit
			if edit == nil {
				edit = func(*http.Request) {}
			}
			w := ask(t, h, tt.method, tt.path, tt.body, edit)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) {
				t.Errorf("%d, want %d with %q:\n%.300s", w.Code, tt.status, tt.text, w.Body)
			}
			if w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%v", w.Header())
			}
		})
	}
}

func TestLocalIsTrusted(t *testing.T) {
	f := newFake()
	h := newTestServer(f).Handler(true)
	for _, request := range [][3]string{
		{"DELETE", "/v1/job/nightly?purge=true", ""},
		{"PUT", "/v1/allocation/" + webID + "/stop", ""},
		{"PUT", "/v1/client/allocation/" + webID + "/restart", `{"TaskName":"web"}`},
		{"PUT", "/v1/client/allocation/" + webID + "/signal", `{"Signal":"SIGHUP"}`},
		{"PUT", "/v1/jobs", `{"Source":"x","Filename":"a.hcl","Variables":{"a":"b"}}`},
		{"PUT", "/v1/system/gc", ""},
	} {
		w := ask(t, h, request[0], request[1], request[2], func(r *http.Request) { r.Host = "whatever" })
		if w.Code != http.StatusOK {
			t.Errorf("%v: %d %s", request, w.Code, w.Body)
		}
	}
	want := []string{
		"stop job nightly true", "stop " + webID, "restart " + webID + " web", "signal " + webID + "  SIGHUP", "run a.hcl map[a:b]", "gc",
	}
	testkit.Diff(t, "result", want, f.called())
}

// TestWithoutToken holds that an agent without a token trusts nobody on TCP, whatever they send.
func TestWithoutToken(t *testing.T) {
	h := New(newFake(), Options{}).Handler(false)
	for _, token := range []string{"", "x"} {
		w := ask(t, h, "PUT", "/v1/system/gc", "", func(r *http.Request) { r.Header.Set("X-Nomad-Token", token) })
		testkit.Equal(t, w.Code, http.StatusForbidden, "token %q", token)
	}
}

// TestPageTrust holds that requests with the token, and no others, are trusted by the page.
func TestPageTrust(t *testing.T) {
	h := New(newFake(), Options{
		Token: theToken,
		Page:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, Trusted(r.Context())) }),
	}).Handler(false)
	for header, want := range map[string]string{
		"": "false", "X-Nomad-Token: " + testToken: "true", "Authorization: Bearer " + testToken: "true",
		"Authorization: Basic YW55Ym9keTp0MGtlbg==": "false", "X-Nomad-Token: x": "invalid token\n",
	} {
		name, value, _ := strings.Cut(header, ": ")
		w := ask(t, h, "GET", "/", "", func(r *http.Request) { r.Header.Set(name, value) })
		if w.Body.String() != want {
			t.Errorf("%q: %s, want %s", header, w.Body, want)
		}
	}
}

func TestHosts(t *testing.T) {
	all := &Server{hosts: hostsOf("0.0.0.0", nil)}
	for host, want := range map[string]bool{
		"[::1]:4656": true, "192.0.2.1": true, "192.0.2.1:80": true, "[2001:db8::1]:80": true, "localhost": true, "a.localhost:80": true,
		"evil.example": false, "": false, "*": false, "*:80": false, "192.0.2.1.evil.example": false, "localhost.evil.example": false,
	} {
		testkit.Equal(t, all.knownHost(host), want, "%q", host)
	}
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{hook.ErrNotRunning, 400},
		{driver.ErrInvalid, 400},
		{driver.ErrNotSupported, 501},
		{driver.ErrUnavailable, 503},
		{driver.ErrTaskNotFound, 404},
		{errors.New("disk is full"), 500},
		{context.Canceled, 500},
	} {
		f := newFake()
		f.err = fmt.Errorf("stop: %w", tt.err)
		w := ask(t, newTestServer(f).Handler(true), "PUT", "/v1/allocation/"+webID+"/stop", "")
		if w.Code != tt.want || !strings.Contains(w.Body.String(), tt.err.Error()) {
			t.Errorf("%v: %d %s", tt.err, w.Code, w.Body)
		}
	}
}

// TestFailuresAreLogged tells what is the agent's fault from a client that went away.
func TestFailuresAreLogged(t *testing.T) {
	for gone, want := range map[bool]bool{false: true, true: false} {
		var log bytes.Buffer
		f := newFake()
		f.err = context.Canceled
		h := New(f, Options{Token: theToken, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}).Handler(false)
		ask(t, h, "PUT", "/v1/jobs", `{"Source": "x"}`, withToken, func(r *http.Request) {
			ctx, cancel := context.WithCancel(r.Context())
			if gone {
				cancel()
			}
			t.Cleanup(cancel)
			*r = *r.WithContext(ctx)
		})
		testkit.Equal(t, strings.Contains(log.String(), "request failed"), want, "client gone: %v, logged", gone)
	}
}

// TestHealth holds that an agent that is not healthy answers 500 with the same JSON.
func TestHealth(t *testing.T) {
	for _, test := range []struct {
		cause  error
		status int
		want   string
	}{
		{nil, http.StatusOK, `{"client":{"message":"ok","ok":true},"server":{"message":"ok","ok":true}}`},
		{
			errors.New("disk full"), http.StatusInternalServerError,
			`{"client":{"message":"disk full","ok":false},"server":{"message":"disk full","ok":false}}`,
		},
	} {
		f := newFake()
		f.unhealthy = test.cause
		w := ask(t, newTestServer(f).Handler(false), "GET", "/v1/agent/health", "")
		if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
			t.Errorf("%v: %d %s; want %d %s", test.cause, w.Code, got, test.status, test.want)
		}
	}
}
