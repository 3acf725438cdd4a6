// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/agent/shape"
	"github.com/tachograph/tacho/agent/snapshot"
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
	// Job is Nomad's own form, which is refused.
	Job json.RawMessage
}

func readRegistration(r *http.Request) (job.Source, error) {
	var body registration
	if err := readBody(r, &body); err != nil {
		return job.Source{}, err
	}
	switch {
	case len(body.Job) > 0:
		return job.Source{}, badRequest("jobs in JSON are not supported by the embedded agent; send the text of the job file as " +
			`{"Source": TEXT, "Filename": NAME}, as tacho job run does, or run this job on a Nomad cluster`)
	case body.Source == "":
		return job.Source{}, badRequest(`the body needs the text of a job file: {"Source": TEXT, "Filename": NAME, "Variables": {}}`)
	}
	if body.Filename == "" {
		body.Filename = "job.nomad.hcl"
	}
	return job.Source{Filename: body.Filename, Text: body.Source, Variables: body.Variables}, nil
}

// runJob is PUT /v1/jobs and PUT /v1/job/ID.
func (s *Server) runJob(r *http.Request, _ *snapshot.Agent) (any, error) {
	source, err := readRegistration(r)
	if err != nil {
		return nil, err
	}
	if id := r.PathValue("id"); id != "" {
		j, err := s.agent.Validate(r.Context(), source)
		if err != nil {
			return nil, err
		}
		if j.ID != id {
			return nil, badRequest(fmt.Sprintf("the job file is of job %q and the path of %q", j.ID, id))
		}
	}
	status, changed, err := s.agent.RunJob(r.Context(), source)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"EvalID": evaluationID(registered, status), "EvalCreateIndex": status.ModifyIndex,
		"JobModifyIndex": status.ModifyIndex, "Warnings": "",
		"Tacho": map[string]any{"JobID": status.Job.ID, "Version": status.Version, "Changed": changed},
	}, nil
}

// stopJob is DELETE /v1/job/ID.
func (s *Server) stopJob(r *http.Request, _ *snapshot.Agent, j *snapshot.Job) (any, error) {
	p := paramsOf(r)
	purge := p.flag("purge")
	if p.err != nil {
		return nil, p.err
	}
	if err := s.agent.StopJob(j.Job.ID, purge); err != nil {
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
	return s.agent.Validate(r.Context(), job.Source{Filename: "job.nomad.hcl", Text: body.JobHCL})
}

// validateJob is PUT /v1/validate/job. A job file with errors is an answer, not a failure.
func (s *Server) validateJob(r *http.Request, _ *snapshot.Agent) (any, error) {
	source, err := readRegistration(r)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"DriverConfigValidated": true, "ValidationErrors": []string{}, "Error": "", "Warnings": ""}
	if _, err := s.agent.Validate(r.Context(), source); err != nil {
		if statusOf(err) != http.StatusBadRequest {
			return nil, err
		}
		text := err.Error()
		answer["ValidationErrors"], answer["Error"] = strings.Split(text, "\n"), text
	}
	return answer, nil
}

// jobAllocations is GET /v1/job/ID/allocations.
func (s *Server) jobAllocations(r *http.Request, now *snapshot.Agent, j *snapshot.Job) (any, error) {
	return allocations(r, now, func(a *allocation.Allocation) bool { return a.JobID == j.Job.ID }), nil
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
	return map[string]any{
		"Source": j.Job.Source.Text, "Format": "hcl2", "Variables": "", "VariableFlags": j.Job.Source.Variables,
	}, nil
}

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
	for _, e := range evaluations(now) {
		add("evals", e.ID)
	}
	truncated := map[string]bool{}
	for kind, ids := range found {
		slices.Sort(ids)
		truncated[kind] = false
	}
	return map[string]any{"Matches": found, "Truncations": truncated}, nil
}
