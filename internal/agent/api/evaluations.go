// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
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
	FailedTGAllocs    map[string]*placementFailure

	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   int64
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

// decision is a possible evaluation over a job, about an allocation of it unless that is nil.
type decision struct {
	trigger trigger
	alloc   *allocation.Allocation
	// made is false for decisions that only follow, or that no longer matter.
	made bool
}

// decisions are those that can be made over a job.
func (q *request) decisions(j *snapshot.Job) []decision {
	all := []decision{{registered, nil, true}, {queued, nil, len(j.Unplaced) > 0}, {deregistered, nil, j.Stopped}}
	for _, a := range q.now.Allocations {
		if a.JobID != j.Job.ID {
			continue
		}
		stopping := a.DesiredStatus == allocation.DesiredStop
		all = append(all, decision{allocStopped, a, !j.Stopped && stopping})
		if !a.Rescheduled.IsZero() {
			all = append(all, decision{rescheduled, a, !j.Stopped && !stopping})
		}
	}
	return all
}

func (d decision) id(j *snapshot.Job) string {
	if d.alloc != nil {
		return decisionID(d.trigger, d.alloc)
	}
	return evaluationID(d.trigger, j)
}

// evaluations lists the decisions over the stored jobs and allocations that match.
func (q *request) evaluations(match func(*evaluation) bool) []*evaluation {
	list := []*evaluation{}
	for _, j := range q.now.Jobs {
		for _, d := range q.decisions(j) {
			if e := q.newEvaluation(d, j); d.made && match(e) {
				list = append(list, e)
			}
		}
	}
	return list
}

// newEvaluation returns a decision, with the groups that could not be placed.
func (q *request) newEvaluation(d decision, j *snapshot.Job) *evaluation {
	e := d.evaluation(j)
	if a := d.alloc; a != nil {
		e.CreateIndex, e.ModifyIndex = a.ModifyIndex, a.ModifyIndex
		e.CreateTime, e.ModifyTime = a.ModifyTime.UnixNano(), a.ModifyTime.UnixNano()
		if d.trigger == rescheduled { // replaced at a later time
			e.Status, e.WaitUntil, e.StatusDescription = "pending", a.Rescheduled, "created for delayed rescheduling"
		}
		return e
	}
	if len(j.Unplaced) == 0 || d.trigger == deregistered {
		return e
	}
	e.FailedTGAllocs = newPlacementFailures(q, j.Unplaced)
	for name, u := range j.Unplaced {
		e.QueuedAllocations[name] = len(u.Indexes)
	}
	if d.trigger == queued {
		e.Status, e.StatusDescription = "blocked", "created to place remaining allocations"
		e.PreviousEval = evaluationID(registered, j)
	} else {
		e.BlockedEval = evaluationID(queued, j)
	}
	return e
}

func (d decision) evaluation(j *snapshot.Job) *evaluation {
	return &evaluation{
		ID: d.id(j), Priority: j.Job.Priority, Type: j.Job.Type, TriggeredBy: d.trigger, Namespace: j.Job.Namespace,
		JobID: j.Job.ID, JobModifyIndex: j.ModifyIndex, Status: "complete", QueuedAllocations: map[string]int{},
		CreateIndex: j.ModifyIndex, ModifyIndex: j.ModifyIndex,
		CreateTime: j.SubmitTime.UnixNano(), ModifyTime: j.SubmitTime.UnixNano(),
	}
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
		for _, d := range q.decisions(j) {
			if d.id(j) == q.PathValue("id") {
				return q.newEvaluation(d, j), nil
			}
		}
	}
	return nil, notFound("evaluation not found: it belongs to a job version that was removed, or never existed")
}

func readEvaluation(_ *request, e *evaluation) (any, error) { return e, nil }

func evaluationAllocations(q *request, e *evaluation) (any, error) {
	return q.allocations(func(a *allocation.Allocation) bool { return a.JobID == e.JobID }), nil
}
