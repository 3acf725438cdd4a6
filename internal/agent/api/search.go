// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// search is PUT /v1/search: ids that begin with a prefix, by what they are ids of.
func (s *Server) search(r *http.Request, now *snapshot.Agent) (any, error) {
	var body struct{ Prefix, Context string }
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	found := map[string][]string{"jobs": {}, "allocs": {}, "nodes": {}, "evals": {}, "deployment": {}, "volumes": {}, "plugins": {}, "node_pools": {}}
	add := func(kind, id string) {
		if strings.HasPrefix(id, body.Prefix) && (body.Context == "" || body.Context == "all" || body.Context == kind) {
			found[kind] = append(found[kind], id)
		}
	}
	for _, j := range now.Jobs {
		add("jobs", j.Job.ID)
	}
	for _, a := range now.Allocations {
		add("allocs", a.ID)
	}
	add("nodes", now.Node.ID)
	for _, e := range evaluations(r, now) {
		add("evals", e.ID)
	}
	truncated := map[string]bool{}
	for kind, ids := range found {
		slices.Sort(ids)
		truncated[kind] = false
	}
	return map[string]any{"Matches": found, "Truncations": truncated}, nil
}

// fuzzyMatch is a name that has the text in it, and the ids of what it belongs to.
type fuzzyMatch struct {
	ID    string
	Scope []string
}

// fuzzySearch is PUT /v1/search/fuzzy: what has a text in its name.
func (s *Server) fuzzySearch(r *http.Request, now *snapshot.Agent) (any, error) {
	var body struct{ Text, Context string }
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	found, truncated := map[string][]fuzzyMatch{}, map[string]bool{}
	add := func(kind, name string, scope ...string) {
		all := body.Context == "" || body.Context == "all" || body.Context == kind || body.Context == "jobs" && (kind == "groups" || kind == "tasks")
		if all && strings.Contains(strings.ToLower(name), strings.ToLower(body.Text)) {
			found[kind], truncated[kind] = append(found[kind], fuzzyMatch{name, scope}), false
		}
	}
	for _, j := range now.Jobs {
		if !inNamespace(r, j.Job.Namespace) {
			continue
		}
		add("jobs", j.Job.Name, j.Job.Namespace, j.Job.ID)
		for _, g := range j.Job.Groups {
			add("groups", g.Name, j.Job.Namespace, j.Job.ID)
			for _, t := range g.Tasks {
				add("tasks", t.Name, j.Job.Namespace, j.Job.ID, g.Name)
			}
		}
	}
	for _, a := range now.Allocations {
		if inNamespace(r, a.Namespace) {
			add("allocs", a.Name, a.Namespace, a.ID)
		}
	}
	add("nodes", now.Node.Name, now.Node.ID)
	return map[string]any{"Matches": found, "Truncations": truncated}, nil
}
