// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPathsAreDocumented holds docs/http.md and the paths that are served against each other. The page has the beginning of a path once,
// and then `…/rest`.
func TestPathsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`).ReplaceAllStringFunc(string(source), func(name string) string {
		return strings.ToUpper(strings.Trim(name, "{}."))
	})
	text = strings.ReplaceAll(strings.ReplaceAll(text, `GET "+client+"`, `GET /v1/client/allocation/ID/`), `client+"`, `"/v1/client/allocation/ID/`)
	text, _, _ = strings.Cut(text, "func (s *Server) absentRoutes()") // whose answer is the same for all: a row says so
	served := regexp.MustCompile(`"(?:[A-Z]+ )?(/v1/[^"]+[^"/])"`).FindAllStringSubmatch(text, -1)
	if len(served) < 50 {
		t.Fatalf("%d paths found in routes.go", len(served))
	}
	for _, path := range served {
		if !documented(string(page), path[1]) {
			t.Errorf("docs/http.md has no %s", path[1])
		}
	}
	s := New(newFake(), Options{Token: theToken})
	for _, path := range regexp.MustCompile("`(?:GET )?(/v1/[a-z/]+?)(/ID)?[`\\[?]").FindAllStringSubmatch(string(page), -1) {
		if !slices.ContainsFunc([]string{http.MethodGet, http.MethodPut}, func(method string) bool {
			_, pattern := s.mux.Handler(httptest.NewRequest(method, path[1]+strings.ReplaceAll(path[2], "ID", "0"), nil))
			return pattern != everythingElse && pattern != ""
		}) {
			t.Errorf("docs/http.md has %s, which is not served", path[1]+path[2])
		}
	}
}

// documented reports whether a page has a path, whole or as the rest of another.
func documented(page, path string) bool {
	has := func(text string) bool {
		return regexp.MustCompile("`(?:[A-Z]+ )?" + regexp.QuoteMeta(text) + "[`\\[? ]").MatchString(page)
	}
	for rest := path; ; {
		if has(rest) {
			return true
		}
		_, after, found := strings.Cut(strings.TrimPrefix(rest, "…/"), "/")
		if !found {
			return false
		}
		rest = "…/" + after
	}
}
