// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tachograph/tacho/internal/agent/apijson"
)

// Job is a job as its file says, and what became of it.
type Job struct {
	ID, Name, Namespace, Type, Status string
	Priority                          int
	Stop                              bool
	Version                           uint64
	// SubmitTime is in nanoseconds since 1970.
	SubmitTime int64
	TaskGroups []Group
	// Unplaced are the allocations that wait for a place on the node, by group.
	Unplaced map[string]apijson.Unplaced `json:"TachoUnplaced"`
}

// Group is a set of tasks that are started together, Count times.
type Group struct {
	Name  string
	Count int
	Tasks []Task
}

// Task is one command.
type Task struct {
	Name, Driver string
	Resources    apijson.Resources
	Lifecycle    *struct {
		Hook    string
		Sidecar bool
	}
}

// Source is a job file.
type Source struct {
	// Text is HCL, Filename is for messages.
	Text     string `json:"Source"`
	Filename string
	// Variables are the values of input variables, by name.
	Variables map[string]string `json:",omitempty"`
}

// Registration is what came of running a job file.
type Registration struct {
	Warnings string
	Tacho    struct {
		JobID   string
		Version uint64
		// Changed is false if the job ran already as the file says.
		Changed bool
	}
}

// Validation says what is wrong with a job file.
type Validation struct {
	// ValidationErrors have file, line and column each; empty for a good file.
	ValidationErrors []string
	Warnings         string
}

// The time for registering a job, in which templates are read and drivers asked, and for stopping one: hundreds of
// tasks may have to be told, and that is persisted.
const registering, stopping = time.Minute, time.Minute

// Jobs lists the jobs whose id begins with prefix.
func (c *Client) Jobs(ctx context.Context, prefix string) (Answer[[]apijson.JobStub], error) {
	return Get[[]apijson.JobStub](ctx, c, "/v1/jobs", "prefix", prefix)
}

// Job returns a job by its exact id.
func (c *Client) Job(ctx context.Context, id string) (Answer[Job], error) {
	return Get[Job](ctx, c, Path("v1", "job", id))
}

// RunJob registers a job file, and starts its tasks.
func (c *Client) RunJob(ctx context.Context, source Source) (Answer[Registration], error) {
	return put[Registration](ctx, c, "/v1/jobs", source, registering)
}

// ValidateJob checks a job file and changes nothing.
func (c *Client) ValidateJob(ctx context.Context, source Source) (Answer[Validation], error) {
	return put[Validation](ctx, c, "/v1/validate/job", source, registering)
}

// StopJob stops a job's allocations; with purge the job is removed, too.
func (c *Client) StopJob(ctx context.Context, id string, purge bool) error {
	_, err := do[any](ctx, c, call{
		method: http.MethodDelete, path: Path("v1", "job", id), query: queryOf("purge", strconv.FormatBool(purge)),
		patience: stopping,
	})
	return err
}

// JobAllocations lists a job's allocations, newest first.
func (c *Client) JobAllocations(ctx context.Context, id string, w Wait) (Answer[[]apijson.Allocation], error) {
	return getAfter[[]apijson.Allocation](ctx, c, Path("v1", "job", id, "allocations"), w)
}
