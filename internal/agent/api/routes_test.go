// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestDocs holds that docs/http.md lists every route with its callers, and no other.
func TestDocs(t *testing.T) {
	text := testkit.Value(os.ReadFile("../../../docs/http.md"))(t)
	_, table, _ := strings.Cut(string(text), "| path | callers | what |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed, served []string
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, " | ")
		for path := range strings.SplitSeq(strings.Trim(cells[0], "|` "), "`, `") {
			listed = append(listed, path+" "+cells[1])
		}
	}
	for _, r := range newTestServer(newFake()).routes() {
		path := regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`).ReplaceAllStringFunc(r.path, strings.ToUpper)
		path = strings.NewReplacer("{", "", "}", "", "...", "").Replace(path)
		served = append(served, strings.TrimSpace(r.method+" "+path)+" "+string(r.callers))
	}
	slices.Sort(listed)
	slices.Sort(served)
	if diff := gocmp.Diff(served, listed); diff != "" {
		t.Error(diff)
	}
}

// TestJobsAreReachable holds that every job that can be registered is found by its address.
func TestJobsAreReachable(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := newTestServer(f).Handler(false)
	pieces := []string{"", ".", "..", "/", "%", "%2e", "%2F", "?", "#", ";", "\\\\", "é", "a", "+", "&", ":", "allocations"}
	for i := range 2 * len(pieces) * len(pieces) {
		first := pieces[i/2%len(pieces)]
		text := first + pieces[i/2/len(pieces)] + []string{"", first}[i%2]
		id := strings.ReplaceAll(text, `\\`, `\`)
		_, refused := job.Read(job.Source{Text: "job \"" + text + "\" {\n group \"g\" {\n task \"t\" {\n driver = \"tacho\"\n}\n}\n}"})
		f.jobs[0].Job = fakeJob(id, job.TypeBatch)
		for _, path := range []string{"", "/allocations", "/versions"} {
			w := ask(t, h, http.MethodGet, "/v1/job/"+url.PathEscape(id)+path, "")
			if found := w.Code == http.StatusOK; found != (refused == nil) && path == "" || !found && refused == nil {
				t.Errorf("job %q: %v; GET %s: %d", id, refused, path, w.Code)
			}
		}
	}
}

// TestCallers asks for every path without the token: those for trusted callers are refused, whatever the method.
func TestCallers(t *testing.T) {
	t.Parallel()
	s := newTestServer(newFake())
	h := s.Handler(false)
	for _, r := range s.routes() {
		path := regexp.MustCompile(`\{\w+(\.\.\.)?\}`).ReplaceAllString(r.path, "x")
		if strings.HasSuffix(path, "/stream") {
			continue
		}
		w := ask(t, h, cmp.Or(r.method, "GET"), path, "")
		refused := w.Code == http.StatusForbidden
		testkit.Equal(t, refused, r.callers == trusted, "%s %s: %d, refused", r.method, path, w.Code)
	}
}

// TestWrongTokens slows down a caller who tries tokens, and no other.
func TestWrongTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(newFake(), Options{Token: theToken})
		h := s.Handler(false)
		try := func(token, from string) time.Duration {
			began := time.Now()
			ask(t, h, "GET", "/v1/regions", "", func(r *http.Request) {
				r.Header.Set("X-Nomad-Token", token)
				r.RemoteAddr = from
			})
			return time.Since(began)
		}
		for n := range 20 {
			want := min(10*time.Millisecond<<min(n, 10), 2*time.Second)
			testkit.Equal(t, try("wrong", "192.0.2.1:99"), want, "wait of wrong token %d", n)
		}
		testkit.Equal(t, try("wrong", "192.0.2.2:99"), 10*time.Millisecond, "wait of another caller")
		testkit.Equal(t, try(theToken(), "192.0.2.1:99"), 0, "wait of the token")
		testkit.Equal(t, s.options.Streams.Denied.Load(), 21, "denied streams counted")
	})
}
