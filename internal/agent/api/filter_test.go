// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	h := newTestServer(newFake()).Handler(false)
	for _, test := range []struct {
		path, filter string
		want         []string
	}{
		{"jobs", `Status == "running"`, []string{"web"}},
		{"jobs", `Status == "running" or Type == batch`, []string{"nightly", "web"}},
		{"jobs", `ID matches "^n" and Priority == 50`, []string{"nightly"}},
		{"jobs", `"dc1" in Datacenters and Type != service`, []string{"nightly"}},
		{"jobs", `JobSummary.Summary.cache.Running == 1`, []string{"web"}},
		{"jobs", `Periodic is not nil`, nil},
		{"jobs", `ParameterizedJob is nil and Type == batch`, []string{"nightly"}},
		{"node/pool/default/jobs", `Type == batch`, []string{"nightly"}},
		{"allocations", `ClientStatus == failed`, []string{batchID}},
		{"allocations", `TaskStates.web.State != dead`, []string{webID}},
		{"nodes", `Name contains "nobody"`, nil},
	} {
		var found []struct{ ID string }
		get(t, h, "/v1/"+test.path+"?filter="+url.QueryEscape(test.filter), &found)
		var ids []string
		for _, f := range found {
			ids = append(ids, f.ID)
		}
		if strings.Join(ids, " ") != strings.Join(test.want, " ") {
			t.Errorf("%s: %q, want %q", test.filter, ids, test.want)
		}
	}
	for filter, want := range map[string]string{
		`Status ==`: "failed to read filter expression", `Nothing == 1`: `couldn't find key "Nothing"`, strings.Repeat("x", maxFilter+1): "can have 1024",
		strings.Repeat("(", 300) + "a == b" + strings.Repeat(")", 300): "failed to",
	} {
		w := ask(t, h, "GET", "/v1/jobs?filter="+url.QueryEscape(filter), "")
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.20s: %d %s, want %q", filter, w.Code, w.Body, want)
		}
	}
	// What is hidden from a caller cannot be asked for.
	w := ask(t, h, "GET", "/v1/allocations?filter="+url.QueryEscape(`ClientDescription contains "`+secret+`"`), "")
	if strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("an untrusted caller learns %s", w.Body)
	}
}
