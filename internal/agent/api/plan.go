// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// planJob is PUT /v1/job/ID/plan: what a registration would do.
func (s *Server) planJob(r *http.Request, now *snapshot.Agent) (any, error) {
	reg, err := readRegistration(r)
	if err != nil {
		return nil, err
	}
	if reg.stops() {
		return nil, badRequest("Stop: a plan is of a job that runs")
	}
	plan, err := s.agent.PlanJob(r.Context(), reg.source)
	if err != nil {
		return nil, reg.explain(err)
	}
	if id := r.PathValue("id"); plan.Job.ID != id {
		return nil, badRequest(fmt.Sprintf("the job file is of job %q and the path of %q", plan.Job.ID, id))
	}
	diff, err := newJobDiff(plan)
	if err != nil {
		return nil, err
	}
	updates, modified := map[string]any{}, uint64(0)
	for name, c := range plan.Groups {
		updates[name] = map[string]int{
			"Ignore": c.Ignore, "Place": c.Place, "Stop": c.Stop, "DestructiveUpdate": c.Replace, "Migrate": 0, "InPlaceUpdate": 0, "Canary": 0,
			"Preemptions": 0,
		}
	}
	if plan.Now != nil {
		modified = plan.Now.ModifyIndex
	}
	return map[string]any{
		"Diff": diff, "Annotations": map[string]any{"DesiredTGUpdates": updates, "PreemptedAllocs": nil},
		"FailedTGAllocs": newPlacementFailures(now, plan.Unplaced, Trusted(r.Context())), "JobModifyIndex": modified, "CreatedEvals": []any{}, "NextPeriodicLaunch": nil, "Warnings": reg.warnings(plan.Job),
	}, nil
}

// placementFailure is Nomad's account of a group that no node can run.
type placementFailure struct {
	NodesEvaluated, NodesFiltered, NodesExhausted, NodesInPool int
	NodesAvailable                                             map[string]int
	// ConstraintFiltered and DimensionExhausted count nodes by what is in the way.
	ConstraintFiltered, DimensionExhausted map[string]int
	ClassFiltered, ClassExhausted          map[string]int
	QuotaExhausted                         []string
	ResourcesExhausted, ScoreMetaData      *struct{}
	// CoalescedFailures counts the allocations of the group beyond the first.
	CoalescedFailures int
}

// newPlacementFailures accounts for the groups that this node cannot run. Constraints can contain anything: they are for trusted callers.
func newPlacementFailures(now *snapshot.Agent, unplaced map[string]*snapshot.Unplaced, trusted bool) map[string]*placementFailure {
	all := make(map[string]*placementFailure, len(unplaced))
	for name, u := range unplaced {
		f := &placementFailure{
			NodesEvaluated: 1, NodesInPool: 1, NodesAvailable: map[string]int{now.Node.Datacenter: 1}, CoalescedFailures: len(u.Indexes) - 1,
			NodesFiltered: min(1, len(u.Filtered)), NodesExhausted: min(1, len(u.Exhausted)),
			ConstraintFiltered: map[string]int{}, DimensionExhausted: map[string]int{},
		}
		for _, c := range u.Filtered {
			text := c.String()
			if !trusted {
				text = "constraint"
			}
			f.ConstraintFiltered[text] = 1
		}
		for _, text := range u.Exhausted {
			if !trusted {
				text = "resources"
			}
			f.DimensionExhausted[text] = 1
		}
		all[name] = f
	}
	return all
}

// scaleJob is PUT /v1/job/ID/scale.
func (s *Server) scaleJob(r *http.Request, now *snapshot.Agent) (any, error) {
	var body struct {
		Count  *int
		Target map[string]string
	}
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	if body.Count == nil || body.Target["Group"] == "" {
		return nil, badRequest(`the body needs a group and its count: {"Count": 2, "Target": {"Group": NAME}}`)
	}
	if _, err := jobOf(r, now); err != nil {
		return nil, err
	}
	status, changed, err := s.agent.ScaleJob(r.Context(), r.PathValue("id"), body.Target["Group"], *body.Count)
	if err != nil {
		return nil, err
	}
	return newRegistered(status, changed), nil
}

// diffed is what has changed in a job, a group or a task, in Nomad's shape.
type diffed struct {
	Type       string
	ID         string            `json:",omitempty"`
	Name       string            `json:",omitempty"`
	Fields     []fieldDiff       `json:",omitempty"`
	Objects    []struct{}        // what is in them is in Fields, with the path to it as the name
	TaskGroups []*diffed         `json:",omitempty"`
	Tasks      []*diffed         `json:",omitempty"`
	Updates    map[string]uint64 `json:",omitempty"`
	// Annotations say what follows from it.
	Annotations []string `json:",omitempty"`
}

type fieldDiff struct {
	Type, Name, Old, New string
	Annotations          []string `json:",omitempty"`
}

// The types of differences.
const (
	diffNone    = "None"
	diffAdded   = "Added"
	diffDeleted = "Deleted"
	diffEdited  = "Edited"
)

func newJobDiff(plan *snapshot.Plan) (*diffed, error) {
	next := newJobJSON(&snapshot.Job{Job: plan.Job, ID: plan.Job.ID}, true)
	var before *jobJSON
	diff := &diffed{Type: diffAdded, ID: plan.Job.ID}
	groups := map[string][2]*groupJSON{}
	if plan.Now != nil {
		before = newJobJSON(plan.Now, true)
		for i := range before.Groups {
			groups[before.Groups[i].Name] = [2]*groupJSON{&before.Groups[i], nil}
		}
	}
	for i := range next.Groups {
		groups[next.Groups[i].Name] = [2]*groupJSON{groups[next.Groups[i].Name][0], &next.Groups[i]}
	}
	var err error
	diff.Type, diff.Fields, err = differences(before, next, append(job.ServerKeys(), "TaskGroups", "Constraints")...)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if err != nil {
			return nil, err
		}
		var group *diffed
		group, err = newGroupDiff(name, groups[name][0], groups[name][1])
		group.Updates = updatesOf(plan.Groups[name])
		group.annotate()
		diff.TaskGroups = append(diff.TaskGroups, group)
		if diff.Type == diffNone && group.Type != diffNone {
			diff.Type = diffEdited
		}
	}
	return diff, err
}

func newGroupDiff(name string, before, next *groupJSON) (*diffed, error) {
	diff := &diffed{Name: name}
	tasks := map[string][2]*taskJSON{}
	for side, g := range []*groupJSON{before, next} {
		if g == nil {
			continue
		}
		for i := range g.Tasks {
			pair := tasks[g.Tasks[i].Name]
			pair[side] = &g.Tasks[i]
			tasks[g.Tasks[i].Name] = pair
		}
	}
	var err error
	diff.Type, diff.Fields, err = differences(before, next, "Tasks", "Name", "Ports", "DiskMB")
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		task := &diffed{Name: name}
		var failure error
		task.Type, task.Fields, failure = differences(tasks[name][0], tasks[name][1], "Name")
		err = cmp.Or(err, failure)
		diff.Tasks = append(diff.Tasks, task)
		if diff.Type == diffNone && task.Type != diffNone {
			diff.Type = diffEdited
		}
	}
	return diff, err
}

// What follows from a difference, in the words of Nomad's command line.
const (
	forcesCreate  = "forces create"
	forcesDestroy = "forces destroy"
	forcesReplace = "forces create/destroy update"
)

// annotate says what follows from the differences of a group.
func (d *diffed) annotate() {
	for i := range d.Fields {
		if f := &d.Fields[i]; f.Name == "Count" && d.Type == diffEdited {
			before, errBefore := strconv.Atoi(f.Old)
			next, errNext := strconv.Atoi(f.New)
			if f.Annotations = []string{forcesCreate}; errBefore == nil && errNext == nil && next < before {
				f.Annotations = []string{forcesDestroy}
			}
		}
	}
	for _, t := range d.Tasks {
		switch {
		case t.Type == diffNone:
		case d.Type == diffAdded:
			t.Annotations = []string{forcesCreate}
		case d.Type == diffDeleted:
			t.Annotations = []string{forcesDestroy}
		case d.Updates[replaceWord] > 0:
			t.Annotations = []string{forcesReplace}
		}
	}
}

// replaceWord counts allocations that others take the place of.
const replaceWord = "create/destroy update"

// updatesOf are changes in the words of Nomad's command line.
func updatesOf(c snapshot.Changes) map[string]uint64 {
	all := map[string]uint64{}
	for name, n := range map[string]int{"ignore": c.Ignore, "create": c.Place, "destroy": c.Stop, replaceWord: c.Replace} {
		if n > 0 {
			all[name] = uint64(n)
		}
	}
	return all
}

// differences compares two values by their JSON; one that is nil was added or is deleted.
func differences[T any](before, next *T, except ...string) (kind string, fields []fieldDiff, err error) {
	old, err := leaves(before, except)
	if err != nil {
		return "", nil, err
	}
	now, err := leaves(next, except)
	if err != nil {
		return "", nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch was, known := old[name]; {
		case !known:
			fields = append(fields, fieldDiff{Type: diffAdded, Name: name, New: now[name]})
		case was != now[name]:
			fields = append(fields, fieldDiff{Type: diffEdited, Name: name, Old: was, New: now[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, kept := now[name]; !kept {
			fields = append(fields, fieldDiff{Type: diffDeleted, Name: name, Old: old[name]})
		}
	}
	switch {
	case before == nil:
		kind = diffAdded
	case next == nil:
		kind = diffDeleted
	case len(fields) > 0:
		kind = diffEdited
	default:
		kind = diffNone
	}
	return kind, fields, nil
}

// leaves are the values in a value's JSON by their paths; what is empty is left out.
func leaves[T any](v *T, except []string) (map[string]string, error) {
	all := map[string]string{}
	if v == nil {
		return all, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("compare jobs: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("compare jobs: %w", err)
	}
	for key, inner := range tree {
		if !slices.Contains(except, key) {
			addLeaves(all, key, inner)
		}
	}
	return all, nil
}

func addLeaves(all map[string]string, path string, v any) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for key, inner := range v {
			addLeaves(all, path+"["+key+"]", inner)
		}
	case []any:
		for i, inner := range v {
			addLeaves(all, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	default:
		if text := fmt.Sprint(v); text != "" {
			all[path] = text
		}
	}
}
