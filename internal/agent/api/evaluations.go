// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// planJob returns what a registration would do.
func (s *Server) planJob(q *request, reg *registration) (any, error) {
	if reg.stops() {
		return nil, badRequest("Stop: a plan is of a job that runs")
	}
	plan, err := s.agent.PlanJob(q.Context(), reg.source)
	if err != nil {
		return nil, reg.explain(err)
	}
	if err := q.checkJob(plan.Job); err != nil {
		return nil, err
	}
	diff, err := newJobDiff(plan)
	if err != nil {
		return nil, err
	}
	updates, modified := object{}, uint64(0)
	for name, c := range plan.Groups {
		updates[name] = map[string]int{
			"Ignore": c.Ignore, "Place": c.Place, "Stop": c.Stop, "DestructiveUpdate": c.Replace,
			"Migrate": 0, "InPlaceUpdate": 0, "Canary": 0, "Preemptions": 0,
		}
	}
	if plan.Now != nil {
		modified = plan.Now.ModifyIndex
	}
	return object{
		"Diff": diff, "Annotations": object{"DesiredTGUpdates": updates, "PreemptedAllocs": nil},
		"FailedTGAllocs": newPlacementFailures(q, plan.Unplaced), "JobModifyIndex": modified,
		"CreatedEvals": []any{}, "NextPeriodicLaunch": nil, "Warnings": reg.warnings(plan.Job),
	}, nil
}

// newPlacementFailures accounts for the groups that this node cannot run. Constraints can contain anything: untrusted
// callers do not see them.
func newPlacementFailures(q *request, unplaced map[string]*snapshot.Unplaced) map[string]*apijson.AllocationMetrics {
	all := make(map[string]*apijson.AllocationMetrics, len(unplaced))
	for name, u := range unplaced {
		f := &apijson.AllocationMetrics{
			NodesEvaluated: 1, NodesInPool: 1, NodesAvailable: map[string]int{q.now.Node.Datacenter: 1},
			NodesFiltered: min(1, len(u.Filtered)), NodesExhausted: min(1, len(u.Exhausted)),
			ConstraintFiltered: map[string]int{}, DimensionExhausted: map[string]int{}, CoalescedFailures: len(u.Indexes) - 1,
		}
		for _, c := range u.Filtered {
			f.ConstraintFiltered[q.redact(c.String(), "constraint")] = 1
		}
		for _, text := range u.Exhausted {
			f.DimensionExhausted[q.redact(text, "resources")] = 1
		}
		all[name] = f
	}
	return all
}

// redact returns a text for trusted callers, another for untrusted ones.
func (q *request) redact(text, other string) string {
	if q.trusted {
		return text
	}
	return other
}

// changes are the changes of a job, a group or a task, in Nomad's shape.
type changes struct {
	Type       string
	ID         string            `json:",omitempty"`
	Name       string            `json:",omitempty"`
	Fields     []fieldChange     `json:",omitempty"`
	Objects    []struct{}        // always nil: Fields have what is in them, with its path as the name
	TaskGroups []*changes        `json:",omitempty"`
	Tasks      []*changes        `json:",omitempty"`
	Updates    map[string]uint64 `json:",omitempty"`
	// Annotations are the consequences, in the words of Nomad's command line.
	Annotations []string `json:",omitempty"`
}

type fieldChange struct {
	Type, Name, Old, New string
	Annotations          []string `json:",omitempty"`
}

// The types of changes.
const (
	changeNone    = "None"
	changeAdded   = "Added"
	changeDeleted = "Deleted"
	changeEdited  = "Edited"
)

// The consequences of changes. replaceWord counts allocations that others replace.
const (
	forcesCreate  = "forces create"
	forcesDestroy = "forces destroy"
	replaceWord   = "create/destroy update"
)

func newJobDiff(plan *snapshot.Plan) (*changes, error) {
	var before map[string]any
	next, err := jobTree(&snapshot.Job{Job: plan.Job, ID: plan.Job.ID})
	if err == nil && plan.Now != nil {
		before, err = jobTree(plan.Now)
	}
	if err != nil {
		return nil, fmt.Errorf("compare jobs: %w", err)
	}
	diff := newChanges(before, next, append(job.ServerKeys(), "TaskGroups", "Constraints")...)
	diff.ID = plan.Job.ID
	diff.TaskGroups = diff.parts(before, next, "TaskGroups", func(name string, before, next map[string]any) *changes {
		group := newChanges(before, next, "Tasks", "Name", "Ports", "DiskMB")
		group.Tasks = group.parts(before, next, "Tasks", func(_ string, before, next map[string]any) *changes {
			return newChanges(before, next, "Name")
		})
		group.annotate(plan.Groups[name])
		return group
	})
	return diff, nil
}

// jobTree returns the JSON of a job.
func jobTree(j *snapshot.Job) (tree map[string]any, err error) {
	text, err := json.Marshal(newJobJSON(j, true))
	if err == nil {
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		err = decoder.Decode(&tree)
	}
	return tree, err
}

// parts compares the elements of two lists by their names. Changes of a part are changes of the whole.
func (c *changes) parts(
	before, next map[string]any, key string, compare func(name string, before, next map[string]any) *changes,
) (all []*changes) {
	pairs := map[string][2]map[string]any{}
	for side, whole := range []map[string]any{before, next} {
		list, _ := whole[key].([]any)
		for _, element := range list {
			part, _ := element.(map[string]any)
			name := fmt.Sprint(part["Name"])
			pair := pairs[name]
			pair[side] = part
			pairs[name] = pair
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		part := compare(name, pairs[name][0], pairs[name][1])
		part.Name = name
		all = append(all, part)
		if c.Type == changeNone && part.Type != changeNone {
			c.Type = changeEdited
		}
	}
	return all
}

// newChanges compares the fields of two values; nil stands for a missing value.
func newChanges(before, next map[string]any, except ...string) *changes {
	c := &changes{}
	old, now := leaves(before, except), leaves(next, except)
	both := maps.Clone(old)
	maps.Copy(both, now)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		was, known := old[name]
		is, kept := now[name]
		if t := changeType(known, kept, was != is); t != changeNone {
			c.Fields = append(c.Fields, fieldChange{Type: t, Name: name, Old: was, New: is})
		}
	}
	c.Type = changeType(before != nil, next != nil, len(c.Fields) > 0)
	return c
}

// changeType is what happened to something that was there before, is there now, or both.
func changeType(before, now, differs bool) string {
	switch {
	case !before:
		return changeAdded
	case !now:
		return changeDeleted
	case differs:
		return changeEdited
	}
	return changeNone
}

// leaves returns the values in an object by their paths, without empty ones.
func leaves(object map[string]any, except []string) map[string]string {
	all := map[string]string{}
	for key, inner := range object {
		if !slices.Contains(except, key) {
			addLeaves(all, key, inner)
		}
	}
	return all
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

// annotate adds the consequences of the changes of a group.
func (c *changes) annotate(counts snapshot.Changes) {
	c.Updates = map[string]uint64{}
	for name, n := range map[string]int{
		"ignore": counts.Ignore, "create": counts.Place, "destroy": counts.Stop, replaceWord: counts.Replace,
	} {
		if n > 0 {
			c.Updates[name] = uint64(n)
		}
	}
	for i := range c.Fields {
		if f := &c.Fields[i]; f.Name == "Count" && c.Type == changeEdited {
			before, _ := strconv.Atoi(f.Old) // both are counts
			next, _ := strconv.Atoi(f.New)
			if f.Annotations = []string{forcesCreate}; next < before {
				f.Annotations = []string{forcesDestroy}
			}
		}
	}
	for _, t := range c.Tasks {
		switch {
		case t.Type == changeNone:
		case c.Type == changeAdded:
			t.Annotations = []string{forcesCreate}
		case c.Type == changeDeleted:
			t.Annotations = []string{forcesDestroy}
		case c.Updates[replaceWord] > 0:
			t.Annotations = []string{"forces " + replaceWord}
		}
	}
}

// trigger is the reason for a decision, in Nomad's words.
type trigger string

const (
	registered   trigger = "job-register"
	deregistered trigger = "job-deregister"
	allocStopped trigger = "alloc-stop"
	// queued decisions wait until the node can run the rest, rescheduled ones until a failed allocation is replaced.
	queued      trigger = "queued-allocs"
	rescheduled trigger = "alloc-failure"
)

// evaluation is a decision over a job in Nomad's shape. This agent decides at once: an evaluation is complete unless
// allocations wait. Evaluations are not stored: their ids follow from the decision.
type evaluation struct {
	ID                string
	Priority          int
	Type              string
	TriggeredBy       trigger
	Namespace, JobID  string
	JobModifyIndex    uint64
	NodeID            string `json:",omitempty"`
	DeploymentID      string
	Status            string
	StatusDescription string
	BlockedEval       string    `json:",omitempty"`
	PreviousEval      string    `json:",omitempty"`
	WaitUntil         time.Time `json:",omitzero"`
	QueuedAllocations map[string]int
	FailedTGAllocs    map[string]*apijson.AllocationMetrics

	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
	// made is false for decisions that only follow, or that no longer matter.
	made bool
}

// evaluationID is the id of a decision over the current version of a job.
func evaluationID(t trigger, j *snapshot.Job) string {
	return versionID(t, j.Job.Namespace, j.Job.ID, j.Version)
}

func versionID(t trigger, namespace, jobID string, version uint64) string {
	return allocation.StableID(fmt.Sprintf("%s\x00%s\x00%s\x00%d", t, namespace, jobID, version))
}

// decisionID is the id of a decision over an allocation.
func decisionID(t trigger, a *allocation.Allocation) string {
	return allocation.StableID(string(t) + "\x00" + a.ID)
}

// newEvaluation returns a decision over the current version of a job.
func newEvaluation(t trigger, j *snapshot.Job) *evaluation {
	return &evaluation{
		ID: evaluationID(t, j), Priority: j.Job.Priority, Type: j.Job.Type, TriggeredBy: t, Namespace: j.Job.Namespace,
		JobID: j.Job.ID, JobModifyIndex: j.ModifyIndex, Status: "complete", QueuedAllocations: map[string]int{},
		CreateIndex: j.ModifyIndex, ModifyIndex: j.ModifyIndex,
		CreateTime: j.SubmitTime.UnixNano(), ModifyTime: j.SubmitTime.UnixNano(),
	}
}

// newAllocEvaluation returns a decision over an allocation of a job.
func newAllocEvaluation(t trigger, j *snapshot.Job, a *allocation.Allocation) *evaluation {
	e := newEvaluation(t, j)
	e.ID, e.CreateIndex, e.ModifyIndex = decisionID(t, a), a.ModifyIndex, a.ModifyIndex
	e.CreateTime, e.ModifyTime = a.ModifyTime.UnixNano(), a.ModifyTime.UnixNano()
	return e
}

// decisions are those that can be made over a job, whether they were or not.
func (q *request) decisions(j *snapshot.Job) []*evaluation {
	register, rest, deregister := newEvaluation(registered, j), newEvaluation(queued, j), newEvaluation(deregistered, j)
	register.made, rest.made, deregister.made = true, len(j.Unplaced) > 0, j.Stopped
	if rest.made {
		failed := newPlacementFailures(q, j.Unplaced)
		for name, u := range j.Unplaced {
			register.QueuedAllocations[name] = len(u.Indexes)
		}
		register.FailedTGAllocs, register.BlockedEval = failed, rest.ID
		rest.FailedTGAllocs, rest.QueuedAllocations = failed, register.QueuedAllocations
		rest.Status, rest.StatusDescription = "blocked", "created to place remaining allocations"
		rest.PreviousEval = register.ID
	}
	all := []*evaluation{register, rest, deregister}
	for _, a := range q.now.Allocations {
		if a.JobID != j.Job.ID {
			continue
		}
		stopping := a.DesiredStatus == allocation.DesiredStop
		stop := newAllocEvaluation(allocStopped, j, a)
		stop.made = !j.Stopped && stopping
		all = append(all, stop)
		if !a.Rescheduled.IsZero() { // replaced at a later time
			later := newAllocEvaluation(rescheduled, j, a)
			later.made = !j.Stopped && !stopping
			later.Status, later.WaitUntil, later.StatusDescription = "pending", a.Rescheduled, "created for delayed rescheduling"
			all = append(all, later)
		}
	}
	return all
}

// evaluations lists the decisions over the stored jobs and allocations that match.
func (q *request) evaluations(match func(*evaluation) bool) []*evaluation {
	list := []*evaluation{}
	for _, j := range q.now.Jobs {
		for _, e := range q.decisions(j) {
			if e.made && match(e) {
				list = append(list, e)
			}
		}
	}
	return list
}

func (s *Server) listEvaluations(q *request) (any, error) {
	prefix, job, status := q.values.Get("prefix"), q.values.Get("job"), q.values.Get("status")
	return q.evaluations(func(e *evaluation) bool {
		return q.inNamespace(e.Namespace) && strings.HasPrefix(e.ID, prefix) &&
			(job == "" || job == e.JobID) && (status == "" || status == e.Status)
	}), nil
}

func (s *Server) jobEvaluations(q *request, j *snapshot.Job) (any, error) {
	return q.evaluations(func(e *evaluation) bool { return e.JobID == j.Job.ID }), nil
}

// evaluationOf finds a decision by its id. Requested ones are known at once, also before their effect.
func evaluationOf(q *request) (*evaluation, error) {
	for _, j := range q.now.Jobs {
		for _, e := range q.decisions(j) {
			if e.ID == q.PathValue("id") {
				return e, nil
			}
		}
	}
	return nil, notFound("evaluation not found: it belongs to a job version that was removed, or never existed")
}

func readEvaluation(_ *request, e *evaluation) (any, error) { return e, nil }

func evaluationAllocations(q *request, e *evaluation) (any, error) {
	return q.allocations(func(a *allocation.Allocation) bool { return a.JobID == e.JobID }), nil
}
