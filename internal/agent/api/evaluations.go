// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

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
	return stableID(string(t), namespace, jobID, fmt.Sprint(version))
}

// decisionID is the id of a decision over an allocation.
func decisionID(t trigger, a *allocation.Allocation) string { return stableID(string(t), a.ID) }

// stableID is a UUID of version 8 (RFC 9562), the same for the same parts.
func stableID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
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
