// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// listJobs is GET /v1/jobs.
func (s *Server) listJobs(r *http.Request, now *snapshot.Agent) (any, error) {
	stubs := []shape.JobStub{}
	for _, j := range now.Jobs {
		if !inNamespace(r, j.Job.Namespace) || !strings.HasPrefix(j.Job.ID, r.URL.Query().Get("prefix")) {
			continue
		}
		stubs = append(stubs, newJobStub(j, now.Allocations))
	}
	return stubs, nil
}

// inNamespace reports whether a request is about a namespace: the one it names, default or all if it names none.
func inNamespace(r *http.Request, namespace string) bool {
	asked := r.URL.Query().Get("namespace")
	return asked == "" || asked == "*" || asked == namespace
}

// jobOf returns the job of a request's path.
func jobOf(r *http.Request, now *snapshot.Agent) (*snapshot.Job, error) {
	j, err := now.Job(r.PathValue("id"))
	if err == nil && !inNamespace(r, j.Job.Namespace) {
		err = notFound("job not found in this namespace")
	}
	return j, err
}

// readJob is GET /v1/job/ID.
func (s *Server) readJob(r *http.Request, _ *snapshot.Agent, j *snapshot.Job) (any, error) {
	return newJobJSON(j, Trusted(r.Context())), nil
}

// registration is the body of PUT /v1/jobs.
type registration struct {
	Source    string
	Filename  string
	Variables map[string]string
	// Job is Nomad's own form. It is what is registered; Submission, the text that it was read from, is for display.
	Job        json.RawMessage
	Submission *job.Submission
	// EnforceIndex refuses a job that others have changed since JobModifyIndex; 0 is a job that there is none of.
	EnforceIndex   bool
	JobModifyIndex uint64
	// PreserveCounts leaves groups that are registered the number of allocations that they have.
	PreserveCounts    bool
	PreserveResources bool

	source      job.Source
	translation *job.Translation
	// countsOf is the index of the job whose counts are preserved in job; 0 of none.
	countsOf uint64
	job      *job.Job
}

func readRegistration(r *http.Request) (*registration, error) {
	reg := &registration{}
	if err := readBody(r, reg); err != nil {
		return nil, err
	}
	if reg.PreserveResources {
		return nil, badRequest("PreserveResources: not supported")
	}
	var err error
	switch inJSON := len(reg.Job) > 0 && string(reg.Job) != "null"; {
	case inJSON:
		if reg.translation, err = job.Translate(reg.Job); err != nil {
			return nil, badRequest(err.Error())
		}
		reg.source = reg.translation.Source
		reg.source.Submission = reg.Submission
	case reg.Source == "":
		return nil, badRequest(`the body needs a job, as the text of a job file or in the JSON of Nomad's API: ` +
			`{"Source": TEXT, "Filename": NAME, "Variables": {}} or {"Job": {}}`)
	default:
		reg.source = job.Source{Filename: cmp.Or(reg.Filename, "job.nomad.hcl"), Text: reg.Source, Variables: reg.Variables}
	}
	return reg, nil
}

// explain returns an error about the job with the places of its JSON in it.
func (reg *registration) explain(err error) error {
	if reg.translation == nil || statusOf(err) != http.StatusBadRequest {
		return err
	}
	return badRequest(reg.places(err.Error()))
}

// places returns a message with the places of the job's JSON in it.
func (reg *registration) places(text string) string {
	if reg.translation == nil {
		return text
	}
	return reg.translation.Explain(text)
}

// warnings are the notes of a job as Nomad's clients show them.
func (reg *registration) warnings(j *job.Job) string { return reg.places(strings.Join(j.Notes, "\n")) }

// runJob is PUT /v1/jobs and PUT /v1/job/ID.
func (s *Server) runJob(r *http.Request, now *snapshot.Agent) (any, error) {
	reg, err := readRegistration(r)
	if err != nil {
		return nil, err
	}
	if id := r.PathValue("id"); id != "" || reg.EnforceIndex || reg.PreserveCounts || reg.stops() || r.URL.Query().Has("namespace") {
		j, err := s.agent.Validate(r.Context(), reg.source)
		if err != nil {
			return nil, reg.explain(err)
		}
		if id != "" && j.ID != id {
			return nil, badRequest(fmt.Sprintf("the job file is of job %q and the path of %q", j.ID, id))
		}
		if err := checkNamespace(r, j); err != nil {
			return nil, err
		}
		if reg.stops() {
			return s.registerStopped(reg, j.ID, now)
		}
		reg.preserveCounts(j, now)
	}
	status, changed, err := s.agent.RunJob(r.Context(), reg.source, reg.check)
	for errors.Is(err, errCountsChanged) {
		reg.preserveCounts(reg.job, s.agent.Snapshot())
		status, changed, err = s.agent.RunJob(r.Context(), reg.source, reg.check)
	}
	if err != nil {
		return nil, reg.explain(err)
	}
	answer := newRegistered(status, changed)
	answer["Warnings"] = reg.warnings(status.Job)
	return answer, nil
}

// stops reports whether the job is one that was read when it was stopped, or that shall be.
func (reg *registration) stops() bool { return reg.translation != nil && reg.translation.Stop }

// checkNamespace rejects a job of another namespace than the request is about.
func checkNamespace(r *http.Request, j *job.Job) error {
	if inNamespace(r, j.Namespace) {
		return nil
	}
	return badRequest(fmt.Sprintf("the job is of namespace %q and the request of %q; set namespace in the job",
		j.Namespace, r.URL.Query().Get("namespace")))
}

// preserveCounts gives the groups of a job the counts of those that are registered.
func (reg *registration) preserveCounts(j *job.Job, now *snapshot.Agent) {
	if !reg.PreserveCounts {
		return
	}
	reg.job, reg.countsOf, reg.source.Counts = j, 0, make(map[string]int)
	registered, err := now.Job(j.ID)
	if err != nil {
		return // there is none
	}
	reg.countsOf = registered.ModifyIndex
	for _, g := range registered.Job.Groups {
		if j.Group(g.Name) != nil {
			reg.source.Counts[g.Name] = g.Count
		}
	}
}

// registerStopped stops a job that was put back with Stop, or leaves it stopped.
func (s *Server) registerStopped(reg *registration, id string, now *snapshot.Agent) (any, error) {
	j, err := now.Job(id)
	if err != nil {
		return nil, badRequest(fmt.Sprintf("Stop: job %q is not registered", id))
	}
	if err := reg.checkIndex(j.ModifyIndex); err != nil {
		return nil, err
	}
	changed := !j.Stopped
	if changed {
		if err := s.agent.StopJob(id, false, reg.checkIndex); err != nil {
			return nil, err
		}
		stopped, err := s.agent.Snapshot().Job(id)
		if err != nil {
			return nil, err
		}
		j = stopped
	}
	return newRegistered(j, changed), nil
}

// errCountsChanged says that a job has changed since its counts were read.
var errCountsChanged = errors.New("the counts of the job have changed meanwhile")

// check rejects a job that has changed since its client, or the server, has read it.
func (reg *registration) check(index uint64) error {
	if reg.PreserveCounts && index != reg.countsOf {
		return errCountsChanged
	}
	return reg.checkIndex(index)
}

// checkIndex rejects a job that has changed since its client has read it, in the words that clients look for. index is that of its last
// change, 0 if it is not registered.
func (reg *registration) checkIndex(index uint64) error {
	if !reg.EnforceIndex {
		return nil
	}
	const mismatch = "Enforcing job modify index %d: "
	switch {
	case index == reg.JobModifyIndex:
		return nil
	case index == 0:
		return badRequest(fmt.Sprintf(mismatch+"job does not exist", reg.JobModifyIndex))
	case reg.JobModifyIndex == 0:
		return badRequest(fmt.Sprintf(mismatch+"job already exists", reg.JobModifyIndex))
	}
	return badRequest(fmt.Sprintf(mismatch+"job exists with conflicting job modify index: %d", reg.JobModifyIndex, index))
}

// newRegistered answers that a job is registered.
func newRegistered(status *snapshot.Job, changed bool) map[string]any {
	return map[string]any{
		"EvalID": evaluationID(registered, status), "EvalCreateIndex": status.ModifyIndex,
		"JobModifyIndex": status.ModifyIndex, "Warnings": "",
		"Tacho": map[string]any{"JobID": status.Job.ID, "Version": status.Version, "Changed": changed},
	}
}

// stopJob is DELETE /v1/job/ID.
func (s *Server) stopJob(r *http.Request, _ *snapshot.Agent, j *snapshot.Job) (any, error) {
	p := paramsOf(r)
	purge := p.flag("purge")
	if p.err != nil {
		return nil, p.err
	}
	if err := s.agent.StopJob(j.Job.ID, purge, nil); err != nil {
		return nil, err
	}
	id := ""
	if stopped, err := s.agent.Snapshot().Job(j.Job.ID); err == nil {
		j, id = stopped, evaluationID(deregistered, stopped)
	}
	return map[string]any{"EvalID": id, "EvalCreateIndex": j.ModifyIndex, "JobModifyIndex": j.ModifyIndex}, nil
}

// parseJob is PUT /v1/jobs/parse, with Nomad's body.
func (s *Server) parseJob(r *http.Request, _ *snapshot.Agent) (any, error) {
	var body struct{ JobHCL, Variables string }
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	if body.Variables != "" {
		return nil, badRequest("variables in HCL are not supported here; /v1/validate/job takes them as a map")
	}
	j, err := s.agent.Validate(r.Context(), job.Source{Filename: "job.nomad.hcl", Text: body.JobHCL})
	if err != nil {
		return nil, err
	}
	return newJobJSON(&snapshot.Job{Job: j, ID: j.ID}, true), nil
}

// validateJob is PUT /v1/validate/job. A job with errors is an answer, not a failure: Nomad's command line takes an answer of
// 400 for an older server, and says that the job is valid.
func (s *Server) validateJob(r *http.Request, _ *snapshot.Agent) (any, error) {
	answer := map[string]any{"DriverConfigValidated": true, "ValidationErrors": []string{}, "Error": "", "Warnings": ""}
	reg, err := readRegistration(r)
	if err != nil {
		return nil, err
	}
	j, err := s.agent.Validate(r.Context(), reg.source)
	if err == nil {
		answer["Warnings"] = reg.warnings(j)
		return answer, nil
	}
	if statusOf(err) != http.StatusBadRequest {
		return nil, err
	}
	text := reg.explain(err).Error()
	answer["ValidationErrors"], answer["Error"] = strings.Split(text, "\n"), text
	return answer, nil
}

// jobAllocations is GET /v1/job/ID/allocations; with ?all=true also those of a job of the same name that was purged.
func (s *Server) jobAllocations(r *http.Request, now *snapshot.Agent, j *snapshot.Job) (any, error) {
	p := paramsOf(r)
	all := p.flag("all")
	if p.err != nil {
		return nil, p.err
	}
	return allocations(r, now, func(a *allocation.Allocation) bool { return a.JobID == j.Job.ID && (all || ofThis(j, a)) }), nil
}

// ofThis reports whether an allocation is of a job as it is registered now, and not of an earlier one of the same name.
func ofThis(j *snapshot.Job, a *allocation.Allocation) bool { return a.CreateIndex >= j.CreateIndex }

// jobStatus is an element of GET /v1/jobs/statuses, which is what Nomad's page lists.
type jobStatus struct {
	ID, Namespace, Name, Type, NodePool, ParentID, Status string
	Datacenters                                           []string
	Priority, GroupCountSum                               int
	Version, CreateIndex, ModifyIndex                     uint64
	SubmitTime                                            int64
	Allocs                                                []statusAllocation
	ChildStatuses                                         []string
	LatestDeployment                                      *struct{}
	Stop, IsPack                                          bool
}

// statusAllocation is an allocation in such an element.
type statusAllocation struct {
	ID, Group, ClientStatus, NodeID, FollowupEvalID string
	JobVersion                                      uint64
	DeploymentStatus                                struct{ Canary, Healthy *bool }
	HasPausedTask                                   bool
}

// jobStatuses is GET and POST /v1/jobs/statuses; the body names the jobs, all without one.
func (s *Server) jobStatuses(r *http.Request, now *snapshot.Agent) (any, error) {
	var body struct {
		Jobs []struct{ ID, Namespace string }
	}
	if r.Method == http.MethodPost && r.ContentLength != 0 {
		if err := readBody(r, &body); err != nil {
			return nil, err
		}
	}
	list := []jobStatus{}
	for _, j := range now.Jobs {
		named := func(n struct{ ID, Namespace string }) bool { return n.ID == j.Job.ID && n.Namespace == j.Job.Namespace }
		if inNamespace(r, j.Job.Namespace) && (len(body.Jobs) == 0 || slices.ContainsFunc(body.Jobs, named)) {
			list = append(list, newJobStatus(j, now.Allocations))
		}
	}
	return list, nil
}

func newJobStatus(j *snapshot.Job, all []*allocation.Allocation) jobStatus {
	shown := jobStatus{
		ID: j.Job.ID, Namespace: j.Job.Namespace, Name: j.Job.Name, Type: j.Job.Type, NodePool: "default", Status: j.Status,
		Datacenters: j.Job.Datacenters, Priority: j.Job.Priority, Version: j.Version, CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
		SubmitTime: j.SubmitTime.UnixNano(), Stop: j.Stopped, Allocs: []statusAllocation{},
	}
	for _, g := range j.Job.Groups {
		shown.GroupCountSum += g.Count
	}
	for _, a := range all {
		if a.JobID != j.Job.ID || !ofThis(j, a) {
			continue
		}
		own := statusAllocation{ID: a.ID, Group: a.Group, ClientStatus: string(a.ClientStatus), NodeID: a.NodeID, JobVersion: a.JobVersion}
		if !a.Rescheduled.IsZero() {
			own.FollowupEvalID = rescheduleID(a)
		}
		shown.Allocs = append(shown.Allocs, own)
	}
	return shown
}

// jobSummary is GET /v1/job/ID/summary.
func (s *Server) jobSummary(_ *http.Request, now *snapshot.Agent, j *snapshot.Job) (any, error) {
	return newSummary(j, now.Allocations), nil
}

// jobScale is GET /v1/job/ID/scale.
func (s *Server) jobScale(_ *http.Request, now *snapshot.Agent, j *snapshot.Job) (any, error) {
	summary := newSummary(j, now.Allocations)
	groups := map[string]any{}
	for _, g := range j.Job.Groups {
		groups[g.Name] = map[string]any{
			"Desired": g.Count, "Placed": summary.Summary[g.Name].Running + summary.Summary[g.Name].Starting,
			"Running": summary.Summary[g.Name].Running, "Healthy": 0, "Unhealthy": 0, "Events": []any{},
		}
	}
	return map[string]any{
		"JobID": j.Job.ID, "Namespace": j.Job.Namespace, "JobStopped": j.Stopped,
		"JobCreateIndex": j.CreateIndex, "JobModifyIndex": j.ModifyIndex, "TaskGroups": groups,
	}, nil
}

// jobVersions is GET /v1/job/ID/versions. Only the present version is kept.
func (s *Server) jobVersions(r *http.Request, _ *snapshot.Agent, j *snapshot.Job) (any, error) {
	return map[string]any{"Versions": []any{newJobJSON(j, Trusted(r.Context()))}, "Diffs": nil}, nil
}

// jobSubmission is GET /v1/job/ID/submission: the text of the job file.
func (s *Server) jobSubmission(_ *http.Request, _ *snapshot.Agent, j *snapshot.Job) (any, error) {
	if s := j.Job.Source.Submission; s != nil {
		return s, nil
	}
	return &job.Submission{Source: j.Job.Source.Text, Format: "hcl2", VariableFlags: j.Job.Source.Variables}, nil
}
