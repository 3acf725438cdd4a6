// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/procstats"
)

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
type Process struct {
	PID          int            `json:"pid"`
	Start        uint64         `json:"start"`
	PPID         int            `json:"ppid"`
	Command      string         `json:"command"`
	Measurements map[string]any `json:"measurements"`
}

// Number returns a measurement of the task; ok is false if it was not read.
func (s *Sample) Number(id procstats.ID) (value float64, ok bool) {
	if s == nil {
		return 0, false
	}
	value, ok = s.Measurements[id.String()].(float64)
	return value, ok
}

// Headlined returns a headline; ok is false if nothing could be chosen.
func (s *Sample) Headlined(id procstats.ID) (value float64, ok bool) {
	if s == nil || s.Headline[id.String()].Value == nil {
		return 0, false
	}
	return *s.Headline[id.String()].Value, true
}

// Number returns a measurement of the process; ok is false if it was not read.
func (p *Process) Number(id procstats.ID) (value float64, ok bool) {
	value, ok = p.Measurements[id.String()].(float64)
	return value, ok
}

// CommandLine returns the command line of the process, or its name if the agent does not show the command line.
func (p *Process) CommandLine() string {
	if line, ok := p.Measurements[procstats.ProcessCmdline.String()].(string); ok {
		return line
	}
	return p.Command
}

// Part is a part of what the tasks of an allocation use: the task with a name, and of processes the rows of those with a
// name. Empty is all.
type Part struct {
	Task, Process string
}

// Stats returns what the tasks of an allocation use.
func (c *Client) Stats(ctx context.Context, id string, part Part) (Answer[Stats], error) {
	return get[Stats](ctx, c, pathOf("v1", "client", "allocation", id, "stats"), queryOf("task", part.Task, "process", part.Process))
}

// AllStats returns what the tasks of all allocations use that have not ended, by the allocation's id.
func (c *Client) AllStats(ctx context.Context) (Answer[map[string]*Stats], error) {
	return get[map[string]*Stats](ctx, c, "/v1/client/allocations/stats", nil)
}

// Range selects from the history. Times are RFC 3339, seconds since 1970, or how long ago, such as 5m; empty for no
// bound. Step is a duration: at most one reading in each.
type Range struct {
	Since, Until, Step string
}

// History returns past readings, oldest first. They have processes if part names one.
func (c *Client) History(ctx context.Context, id string, part Part, r Range) (Answer[apijson.History], error) {
	query := queryOf("task", part.Task, "process", part.Process, "since", r.Since, "until", r.Until, "step", r.Step)
	return get[apijson.History](ctx, c, pathOf("v1", "client", "allocation", id, "stats", "history"), query)
}

// At returns the readings nearest to a time, which is written as those of Range.
func (c *Client) At(ctx context.Context, id string, part Part, at string) (Answer[apijson.Moment], error) {
	query := queryOf("task", part.Task, "process", part.Process, "at", at)
	return get[apijson.Moment](ctx, c, pathOf("v1", "client", "allocation", id, "stats", "history"), query)
}
