// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestDocs holds the list of paths in docs/http.md to the table of routes; -update writes it.
func TestDocs(t *testing.T) {
	const file, begin, end = "../../../docs/http.md", "<!-- Generated from internal/agent/api/routes.go: go test " +
		"./internal/agent/api -run TestDocs -update -->\n", "<!-- end of the list -->\n"
	text := testkit.Value(os.ReadFile(file))(t)
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the list", file)
	}
	want := head + begin + listOfRoutes() + end + tail
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(want), 0o644))
	} else if diff := gocmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}

// listOfRoutes is a table in Markdown. Paths with the same description share a row.
func listOfRoutes() string {
	var order []string
	paths := map[string][]string{}
	for _, r := range newTestServer(newFake()).routes() {
		path := regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`).ReplaceAllStringFunc(r.path, strings.ToUpper)
		row := fmt.Sprintf("%s | %s", r.callers, r.about)
		if paths[row] == nil {
			order = append(order, row)
		}
		path = strings.NewReplacer("{", "", "}", "", "...", "").Replace(path)
		paths[row] = append(paths[row], "`"+strings.TrimSpace(r.method+" "+path)+"`")
	}
	list := "| path | callers | what |\n|---|---|---|\n"
	for _, row := range order {
		list += fmt.Sprintf("| %s | %s |\n", strings.Join(paths[row], ", "), row)
	}
	return list
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
		if refused != (r.callers == trusted) {
			t.Errorf("%s %s: %d, refused: %v", r.method, path, w.Code, refused)
		}
	}
}
