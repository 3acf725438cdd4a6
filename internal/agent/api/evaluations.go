// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// trigger is why something was decided, in Nomad's words.
type trigger string

const (
	registered   trigger = "job-register"
	deregistered trigger = "job-deregister"
	allocStopped trigger = "alloc-stop"
	// queued is a decision that waits for a place on the node, rescheduled one that waits until a failed allocation is replaced.
	queued      trigger = "queued-allocs"
	rescheduled trigger = "alloc-failure"
)

// evaluation is a decision over a job in Nomad's shape. This agent decides at once, so that an evaluation is complete unless
// allocations wait for something; none is stored: its id follows from what was decided.
type evaluation struct {
	ID                string
	Priority          int
	Type              string
	TriggeredBy       trigger
	Namespace         string
	JobID             string
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
	CreateIndex       uint64
	ModifyIndex       uint64
	CreateTime        int64
	ModifyTime        int64
}

// evaluationID is the id of a decision over a job's present version.
func evaluationID(t trigger, j *snapshot.Job) string {
	return versionID(t, j.Job.Namespace, j.Job.ID, j.Version)
}

func versionID(t trigger, namespace, jobID string, version uint64) string {
	return stableID(string(t), namespace, jobID, fmt.Sprint(version))
}

func stopID(a *allocation.Allocation) string { return stableID(string(allocStopped), a.ID) }

func rescheduleID(a *allocation.Allocation) string { return stableID(string(rescheduled), a.ID) }

// stableID is a UUID of version 8 (RFC 9562), the same for the same parts.
func stableID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// evaluations lists the decisions over the jobs and allocations that are kept.
func evaluations(r *http.Request, now *snapshot.Agent) []*evaluation {
	list := []*evaluation{}
	jobs := map[string]*snapshot.Job{}
	for _, j := range now.Jobs {
		jobs[j.Job.ID] = j
		for _, t := range triggers(j) {
			list = append(list, newVersionEvaluation(r, now, t, j))
		}
	}
	for _, a := range now.Allocations {
		j := jobs[a.JobID]
		switch {
		case j == nil || j.Stopped:
		case a.DesiredStatus == allocation.DesiredStop:
			list = append(list, newStop(a, j))
		case !a.Rescheduled.IsZero():
			list = append(list, newReschedule(a, j))
		}
	}
	return list
}

// triggers are what was decided over a job's present version.
func triggers(j *snapshot.Job) []trigger {
	all := []trigger{registered}
	if len(j.Unplaced) > 0 {
		all = append(all, queued)
	}
	if j.Stopped {
		all = append(all, deregistered)
	}
	return all
}

// newVersionEvaluation is a decision over a job's present version, with what could not be placed.
func newVersionEvaluation(r *http.Request, now *snapshot.Agent, t trigger, j *snapshot.Job) *evaluation {
	e := newEvaluation(t, j)
	if len(j.Unplaced) == 0 || t == deregistered {
		return e
	}
	e.FailedTGAllocs = newPlacementFailures(now, j.Unplaced, Trusted(r.Context()))
	for name, u := range j.Unplaced {
		e.QueuedAllocations[name] = len(u.Indexes)
	}
	if t == queued {
		e.Status, e.StatusDescription, e.PreviousEval = "blocked", "created to place remaining allocations", evaluationID(registered, j)
	} else {
		e.BlockedEval = evaluationID(queued, j)
	}
	return e
}

// newReschedule is the decision that a failed allocation is replaced at a later time.
func newReschedule(a *allocation.Allocation, j *snapshot.Job) *evaluation {
	e := newStop(a, j)
	e.ID, e.TriggeredBy, e.Status, e.WaitUntil = rescheduleID(a), rescheduled, "pending", a.Rescheduled
	e.StatusDescription = "created for delayed rescheduling"
	return e
}

func newEvaluation(t trigger, j *snapshot.Job) *evaluation {
	return &evaluation{
		ID: evaluationID(t, j), Priority: j.Job.Priority, Type: j.Job.Type, TriggeredBy: t, Namespace: j.Job.Namespace,
		JobID: j.Job.ID, JobModifyIndex: j.ModifyIndex, Status: "complete", QueuedAllocations: map[string]int{},
		CreateIndex: j.ModifyIndex, ModifyIndex: j.ModifyIndex,
		CreateTime: j.SubmitTime.UnixNano(), ModifyTime: j.SubmitTime.UnixNano(),
	}
}

func newStop(a *allocation.Allocation, j *snapshot.Job) *evaluation {
	e := newEvaluation(allocStopped, j)
	e.ID, e.CreateIndex, e.ModifyIndex = stopID(a), a.ModifyIndex, a.ModifyIndex
	e.CreateTime, e.ModifyTime = a.ModifyTime.UnixNano(), a.ModifyTime.UnixNano()
	return e
}

// listEvaluations is GET /v1/evaluations.
func (s *Server) listEvaluations(r *http.Request, now *snapshot.Agent) (any, error) {
	query := r.URL.Query()
	return slices.DeleteFunc(evaluations(r, now), func(e *evaluation) bool {
		return !inNamespace(r, e.Namespace) || !strings.HasPrefix(e.ID, query.Get("prefix")) ||
			(query.Get("job") != "" && query.Get("job") != e.JobID) ||
			(query.Get("status") != "" && query.Get("status") != e.Status)
	}), nil
}

// jobEvaluations is GET /v1/job/ID/evaluations.
func (s *Server) jobEvaluations(r *http.Request, now *snapshot.Agent, j *snapshot.Job) (any, error) {
	return slices.DeleteFunc(evaluations(r, now), func(e *evaluation) bool { return e.JobID != j.Job.ID }), nil
}

// evaluationOf finds a decision by its id. One that was asked for is known at once, also while what it was about has
// not got there yet.
func evaluationOf(r *http.Request, now *snapshot.Agent) (*evaluation, error) {
	id := r.PathValue("id")
	for _, j := range now.Jobs {
		for _, t := range []trigger{registered, deregistered, queued} {
			if evaluationID(t, j) == id {
				return newVersionEvaluation(r, now, t, j), nil
			}
		}
		for _, a := range now.Allocations {
			switch {
			case a.JobID != j.Job.ID:
			case stopID(a) == id:
				return newStop(a, j), nil
			case !a.Rescheduled.IsZero() && rescheduleID(a) == id:
				return newReschedule(a, j), nil
			}
		}
	}
	return nil, notFound("evaluation not found: it belongs to a job version that was removed, or never existed")
}

// evaluationAllocations is GET /v1/evaluation/ID/allocations.
func (s *Server) evaluationAllocations(r *http.Request, now *snapshot.Agent, e *evaluation) (any, error) {
	return allocations(r, now, func(a *allocation.Allocation) bool { return a.JobID == e.JobID }), nil
}
