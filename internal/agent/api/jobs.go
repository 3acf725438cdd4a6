// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

func (s *Server) listJobs(q *request) (any, error) {
	stubs := []apijson.JobStub{}
	for _, j := range q.now.Jobs {
		if q.inNamespace(j.Job.Namespace) && strings.HasPrefix(j.Job.ID, q.values.Get("prefix")) {
			stubs = append(stubs, newJobStub(j, q.now.Allocations))
		}
	}
	return stubs, nil
}

func (s *Server) readJob(q *request, j *snapshot.Job) (any, error) {
	return newJobJSON(j, q.trusted), nil
}

// registration is the body of PUT /v1/jobs.
type registration struct {
	Source    string
	Filename  string
	Variables map[string]string
	// Job is Nomad's own form, which is what is registered; Submission is the text that it was read from, for display.
	Job        json.RawMessage
	Submission *job.Submission
	// EnforceIndex rejects a job that has changed since JobModifyIndex; 0 means that it is not registered.
	EnforceIndex   bool
	JobModifyIndex uint64
	// PreserveCounts leaves registered groups their counts.
	PreserveCounts    bool
	PreserveResources bool

	source      job.Source
	translation *job.Translation
}

// jobFile names a job's text in errors if the client does not.
const jobFile = "job.nomad.hcl"

// registrationOf reads the body of a request about a job file.
func registrationOf(q *request) (*registration, error) {
	reg := &registration{}
	if err := q.readBody(reg); err != nil {
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
		reg.source = job.Source{Filename: cmp.Or(reg.Filename, jobFile), Text: reg.Source, Variables: reg.Variables}
	}
	return reg, nil
}

// explain returns an error about the job with the places of its JSON in it.
func (reg *registration) explain(err error) error {
	if reg.translation == nil || statusOf(err) != http.StatusBadRequest {
		return err
	}
	return badRequest(reg.translation.Explain(err.Error()))
}

// warnings are the notes of a job as Nomad's clients show them.
func (reg *registration) warnings(j *job.Job) string {
	notes := strings.Join(j.Notes, "\n")
	if reg.translation != nil {
		notes = reg.translation.Explain(notes)
	}
	return notes
}

func (s *Server) runJob(q *request, reg *registration) (any, error) {
	var j *job.Job // nil if nothing depends on what is registered
	if q.PathValue("id") != "" || reg.EnforceIndex || reg.PreserveCounts || reg.stops() || q.values.Has("namespace") {
		var err error
		if j, err = s.agent.Validate(q.Context(), reg.source); err != nil {
			return nil, reg.explain(err)
		}
		if err := q.checkJob(j); err != nil {
			return nil, err
		}
	}
	for now := q.now; ; now = s.agent.Snapshot() {
		answer, err := s.registerOver(q, reg, j, now)
		if !errors.Is(err, allocation.ErrChanged) {
			return answer, reg.explain(err)
		}
	}
}

// registerOver runs or stops a job over what is registered. The error is allocation.ErrChanged if that has changed
// since, and the client or the counts depend on it.
func (s *Server) registerOver(q *request, reg *registration, j *job.Job, now *snapshot.Agent) (any, error) {
	var before *snapshot.Job
	var index uint64
	if j != nil {
		if known, err := now.Job(j.ID); err == nil {
			before, index = known, known.ModifyIndex
		}
	}
	if err := reg.checkIndex(index); err != nil {
		return nil, err
	}
	var expected *uint64
	if reg.EnforceIndex || reg.PreserveCounts {
		expected = &index
	}
	if reg.stops() {
		return s.registerStopped(j.ID, before, expected)
	}
	reg.preserveCounts(j, before)
	status, changed, err := s.agent.RunJob(q.Context(), reg.source, expected)
	if err != nil {
		return nil, err
	}
	return newRegistered(status, changed, reg.warnings(status.Job)), nil
}

// checkJob rejects a job with another id or namespace than those of the request.
func (q *request) checkJob(j *job.Job) error {
	if id := q.PathValue("id"); id != "" && j.ID != id {
		return badRequest(fmt.Sprintf("the job file is of job %q and the path of %q", j.ID, id))
	}
	if !q.inNamespace(j.Namespace) {
		return badRequest(fmt.Sprintf("the job is of namespace %q and the request of %q; set namespace in the job",
			j.Namespace, q.values.Get("namespace")))
	}
	return nil
}

// stops reports whether the JSON is that of a job that was, or is to be, stopped.
func (reg *registration) stops() bool { return reg.translation != nil && reg.translation.Stop }

// preserveCounts gives the groups of a job the counts of the registered ones.
func (reg *registration) preserveCounts(j *job.Job, before *snapshot.Job) {
	if !reg.PreserveCounts {
		return
	}
	reg.source.Counts = make(map[string]int)
	if before == nil {
		return
	}
	for _, g := range before.Job.Groups {
		if j.Group(g.Name) != nil {
			reg.source.Counts[g.Name] = g.Count
		}
	}
}

// registerStopped stops a job that was sent back with Stop, or leaves it stopped.
func (s *Server) registerStopped(id string, before *snapshot.Job, expected *uint64) (any, error) {
	switch {
	case before == nil:
		return nil, badRequest(fmt.Sprintf("Stop: job %q is not registered", id))
	case before.Stopped:
		return newRegistered(before, false, ""), nil
	}
	if err := s.agent.StopJob(id, false, expected); err != nil {
		return nil, err
	}
	stopped, err := s.agent.Snapshot().Job(id)
	if err != nil {
		return nil, err
	}
	return newRegistered(stopped, true, ""), nil
}

// checkIndex rejects a job that has changed since its client read it, in the words that clients look for. index is
// that of its last change, 0 if it is not registered.
func (reg *registration) checkIndex(index uint64) error {
	if !reg.EnforceIndex {
		return nil
	}
	mismatch := fmt.Sprintf("job exists with conflicting job modify index: %d", index)
	switch {
	case index == reg.JobModifyIndex:
		return nil
	case index == 0:
		mismatch = "job does not exist"
	case reg.JobModifyIndex == 0:
		mismatch = "job already exists"
	}
	return badRequest(fmt.Sprintf("Enforcing job modify index %d: %s", reg.JobModifyIndex, mismatch))
}

// newRegistered is the response for a registered job.
func newRegistered(status *snapshot.Job, changed bool, warnings string) object {
	return object{
		"EvalID": evaluationID(registered, status), "EvalCreateIndex": status.ModifyIndex,
		"JobModifyIndex": status.ModifyIndex, "Warnings": warnings,
		"Tacho": object{"JobID": status.Job.ID, "Version": status.Version, "Changed": changed},
	}
}

func (s *Server) stopJob(q *request, j *snapshot.Job) (any, error) {
	purge := q.flag("purge")
	if q.err != nil {
		return nil, q.err
	}
	if err := s.agent.StopJob(j.Job.ID, purge, nil); err != nil {
		return nil, err
	}
	id := ""
	if stopped, err := s.agent.Snapshot().Job(j.Job.ID); err == nil {
		j, id = stopped, evaluationID(deregistered, stopped)
	}
	return object{"EvalID": id, "EvalCreateIndex": j.ModifyIndex, "JobModifyIndex": j.ModifyIndex}, nil
}

// parseJob takes Nomad's body.
func (s *Server) parseJob(q *request) (any, error) {
	var body struct{ JobHCL, Variables string }
	if err := q.readBody(&body); err != nil {
		return nil, err
	}
	if body.Variables != "" {
		return nil, badRequest("variables in HCL are not supported here; /v1/validate/job takes them as a map")
	}
	j, err := s.agent.Validate(q.Context(), job.Source{Filename: jobFile, Text: body.JobHCL})
	if err != nil {
		return nil, err
	}
	return newJobJSON(&snapshot.Job{Job: j, ID: j.ID}, true), nil
}

// validateJob returns errors with status 200: Nomad's command line takes 400 for an older server, and the job for
// valid.
func (s *Server) validateJob(q *request, reg *registration) (any, error) {
	answer := object{"DriverConfigValidated": true, "ValidationErrors": []string{}, "Error": "", "Warnings": ""}
	j, err := s.agent.Validate(q.Context(), reg.source)
	if err == nil {
		answer["Warnings"] = reg.warnings(j)
	} else if statusOf(err) == http.StatusBadRequest {
		text := reg.explain(err).Error()
		answer["ValidationErrors"], answer["Error"], err = strings.Split(text, "\n"), text, nil
	}
	return answer, err
}

func (s *Server) jobAllocations(q *request, j *snapshot.Job) (any, error) {
	all := q.flag("all")
	return q.allocations(func(a *allocation.Allocation) bool {
		return a.JobID == j.Job.ID && (all || ofThis(j, a))
	}), nil
}

// ofThis reports whether an allocation is of the registered job, and not of an earlier one of the same name.
func ofThis(j *snapshot.Job, a *allocation.Allocation) bool { return a.CreateIndex >= j.CreateIndex }

func (s *Server) jobSummary(q *request, j *snapshot.Job) (any, error) {
	return newSummary(j, q.now.Allocations), nil
}

func (s *Server) jobScale(q *request, j *snapshot.Job) (any, error) {
	summary := newSummary(j, q.now.Allocations)
	groups := object{}
	for _, g := range j.Job.Groups {
		count := summary.Summary[g.Name]
		groups[g.Name] = object{
			"Desired": g.Count, "Placed": count.Running + count.Starting, "Running": count.Running,
			"Healthy": 0, "Unhealthy": 0, "Events": []any{},
		}
	}
	return object{
		"JobID": j.Job.ID, "Namespace": j.Job.Namespace, "JobStopped": j.Stopped,
		"JobCreateIndex": j.CreateIndex, "JobModifyIndex": j.ModifyIndex, "TaskGroups": groups,
	}, nil
}

func (s *Server) scaleJob(q *request) (any, error) {
	var body struct {
		Count  *int
		Target map[string]string
	}
	if err := q.readBody(&body); err != nil {
		return nil, err
	}
	if body.Count == nil || body.Target["Group"] == "" {
		return nil, badRequest(`the body needs a group and its count: {"Count": 2, "Target": {"Group": NAME}}`)
	}
	if _, err := jobOf(q); err != nil {
		return nil, err
	}
	status, changed, err := s.agent.ScaleJob(q.Context(), q.PathValue("id"), body.Target["Group"], *body.Count)
	if err != nil {
		return nil, err
	}
	return newRegistered(status, changed, ""), nil
}

// jobVersions returns the current version, the only one that is stored.
func (s *Server) jobVersions(q *request, j *snapshot.Job) (any, error) {
	return object{"Versions": []any{newJobJSON(j, q.trusted)}, "Diffs": nil}, nil
}

func (s *Server) jobSubmission(_ *request, j *snapshot.Job) (any, error) {
	if s := j.Job.Source.Submission; s != nil {
		return s, nil
	}
	return &job.Submission{Source: j.Job.Source.Text, Format: "hcl2", VariableFlags: j.Job.Source.Variables}, nil
}
