// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/procstats"
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

// Allocations lists the allocations whose id begins with prefix, newest first.
func (c *Client) Allocations(ctx context.Context, prefix string) (Answer[[]apijson.Allocation], error) {
	return Get[[]apijson.Allocation](ctx, c, "/v1/allocations", "prefix", prefix)
}

// Allocation returns the one allocation whose id begins with prefix.
func (c *Client) Allocation(ctx context.Context, prefix string, w Wait) (Answer[apijson.Allocation], error) {
	return getAfter[apijson.Allocation](ctx, c, Path("v1", "allocation", prefix), w)
}

// StopAllocation stops an allocation; another replaces it.
func (c *Client) StopAllocation(ctx context.Context, id string) error {
	_, err := put[any](ctx, c, Path("v1", "allocation", id, "stop"), nil, 0)
	return err
}

// RestartAllocation restarts the running tasks, or one.
func (c *Client) RestartAllocation(ctx context.Context, id, task string) error {
	_, err := put[any](ctx, c, ofAllocation(id, "restart"), map[string]string{"TaskName": task}, 0)
	return err
}

// SignalAllocation sends a signal by name to the running tasks, or to one.
func (c *Client) SignalAllocation(ctx context.Context, id, task, signal string) error {
	_, err := put[any](ctx, c, ofAllocation(id, "signal"), map[string]string{"Task": task, "Signal": signal}, 0)
	return err
}

// ofAllocation returns a path below that of an allocation.
func ofAllocation(id string, words ...string) string {
	return Path("v1", "client", "allocation", id) + Path(words...)
}

// Commands returns what the ended processes of a task used, by command. The error is not found (IsNotFound) if they
// are not counted.
func (c *Client) Commands(ctx context.Context, id, task string) (Answer[record.Commands], error) {
	return Get[record.Commands](ctx, c, ofAllocation(id, "commands"), "task", task)
}

// Record returns the final record of a task's last ended start. The error is not found (IsNotFound) if none has ended.
func (c *Client) Record(ctx context.Context, id, task string) (Answer[record.Record], error) {
	return Get[record.Record](ctx, c, ofAllocation(id, "record"), "task", task)
}

// Stats is what the tasks of an allocation use.
type Stats struct{ Tacho apijson.Usage[*Sample] }

// Reading is what one task used when it was last read.
type Reading = apijson.Reading[*Sample]

// Sample is one reading of one task. Its JSON is made by procstats.AppendJSON.
type Sample struct {
	At time.Time `json:"at"`
	// Mono is the monotonic clock in seconds: rates divide by its differences.
	Mono         float64                         `json:"mono_seconds"`
	Measurements map[string]any                  `json:"measurements"`
	Absent       map[string]string               `json:"absent"`
	Headline     map[string]record.HeadlineValue `json:"headline"`
	Processes    *Processes                      `json:"processes"`
}

// Processes is the task's CPU time by process. What is not known is nil.
type Processes struct {
	// At is when the processes were read, which can be before the reading; zero if the agent does not say.
	At     time.Time `json:"at"`
	Rows   []Process `json:"rows"`
	Exited struct {
		CPUSeconds *float64 `json:"cpu_seconds_total"`
		Processes  *float64 `json:"processes"`
	} `json:"exited"`
	Unattributed struct {
		CPUSeconds *float64 `json:"cpu_seconds"`
	} `json:"unattributed"`
	// Total is the CPU time of the task at At, which the others add up to.
	Total struct {
		CPUSeconds *float64 `json:"cpu_seconds"`
	} `json:"total"`
	// Omitted counts processes that have no row.
	Omitted int `json:"omitted"`
}

// Process is one live process.
type Process = apijson.Process[any]

// Number returns a measurement of the task; ok is false if it was not read.
func (s *Sample) Number(id procstats.ID) (value float64, ok bool) {
	if s == nil {
		return 0, false
	}
	value, ok = s.Measurements[id.String()].(float64)
	return value, ok
}

// Part selects the task with a name, and of its processes those with a name. Empty is all.
type Part struct {
	Task, Process string
}

// Stats returns what the tasks of an allocation use.
func (c *Client) Stats(ctx context.Context, id string, part Part) (Answer[Stats], error) {
	return Get[Stats](ctx, c, ofAllocation(id, "stats"), "task", part.Task, "process", part.Process)
}

// AllStats returns what the tasks of all allocations use that have not ended, by the allocation's id.
func (c *Client) AllStats(ctx context.Context) (Answer[map[string]*Stats], error) {
	return Get[map[string]*Stats](ctx, c, "/v1/client/allocations/stats")
}

// Range selects from the history. Times are RFC 3339, seconds since 1970, or an age, such as 5m; empty for no bound.
// Step is a duration: at most one reading in each.
type Range struct {
	Since, Until, Step string
}

// History returns past readings, oldest first. They have processes if part names one.
func (c *Client) History(ctx context.Context, id string, part Part, r Range) (Answer[apijson.History], error) {
	return Get[apijson.History](ctx, c, ofAllocation(id, "stats", "history"), "task", part.Task, "process", part.Process,
		"since", r.Since, "until", r.Until, "step", r.Step)
}

// At returns the readings nearest to a time, which has the form of the times of Range.
func (c *Client) At(ctx context.Context, id string, part Part, at string) (Answer[apijson.Moment], error) {
	return Get[apijson.Moment](ctx, c, ofAllocation(id, "stats", "history"), "task", part.Task, "process", part.Process,
		"at", at)
}
