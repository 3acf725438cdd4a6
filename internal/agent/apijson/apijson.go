// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package apijson has the JSON of the HTTP API, for the agent that writes it and for clients that read it: Nomad's,
// and in fields called Tacho what Nomad has no place for.
package apijson

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// StreamError is the trailer that says why a log ended that was followed.
const StreamError = "Tacho-Error"

// JobStub is a line of the list of jobs.
type JobStub struct {
	ID, ParentID, Name, Namespace            string
	Datacenters                              []string
	NodePool, Type                           string
	Priority                                 int
	Periodic, ParameterizedJob, Stop         bool
	Status, StatusDescription                string
	JobSummary                               JobSummary
	CreateIndex, ModifyIndex, JobModifyIndex uint64
	// SubmitTime is in nanoseconds since 1970.
	SubmitTime int64
	Version    uint64
}

// JobSummary counts a job's allocations by group and status.
type JobSummary struct {
	JobID, Namespace string
	Summary          map[string]GroupSummary
	// Children counts the children of periodic jobs. There are no periodic jobs, but clients read the key of all jobs.
	Children                 struct{ Pending, Running, Dead int }
	CreateIndex, ModifyIndex uint64
}

// GroupSummary counts a group's allocations.
type GroupSummary struct {
	Queued, Complete, Failed, Running, Starting, Lost, Unknown int
}

// Unplaced are allocations of a group that the node cannot run, and why not, in sentences.
type Unplaced struct {
	Allocations int
	Reasons     []string `json:",omitempty"`
}

// Event is an event of the stream.
type Event struct {
	// Topic is Job, Allocation, Evaluation or Node; Key is the id of what the event is about.
	Topic, Type, Key, Namespace string
	FilterKeys                  []string
	Index                       uint64
	Payload                     struct {
		Allocation *Allocation `json:",omitempty"`
		Job        any         `json:",omitempty"`
		Node       any         `json:",omitempty"`
		Evaluation any         `json:",omitempty"`
		Tacho      struct {
			Task string
			Time time.Time
		}
		TaskEvent *TaskEvent `json:",omitempty"`
	}
}

// Usage is what the tasks of an allocation use. S is the form of a sample: text for the agent, a struct for clients.
type Usage[S any] struct {
	Publishing bool `json:"publishing"`
	// Reason is why nothing is measured.
	Reason string                 `json:"reason,omitempty"`
	Tasks  map[string]*Reading[S] `json:"tasks"`
}

// Reading is what one task used when it was last read.
type Reading[S any] struct {
	Running bool `json:"running"`
	// Reason is why there is no sample, or only an old one.
	Reason          string   `json:"reason,omitempty"`
	AgeSeconds      *float64 `json:"age_seconds"`
	IntervalSeconds float64  `json:"interval_seconds"`
	// Backlogged counts the readings that were more than an interval late, HistoryDropped those that are not in the
	// history.
	Backlogged     int64 `json:"backlogged"`
	HistoryDropped int64 `json:"history_dropped"`
	// Sources say when each was read; Guarantees how each measurement relates to the truth, by name.
	Sources    map[string]SourceReading       `json:"sources,omitempty"`
	Guarantees map[string]procstats.Guarantee `json:"guarantees,omitempty"`
	// Sample is null if nothing was measured; see procstats.AppendJSON.
	Sample S `json:"sample"`
}

// SourceReading is when a source was read.
type SourceReading struct {
	ReadAt     time.Time `json:"read_at"`
	AgeSeconds float64   `json:"age_seconds"`
}

// History are past readings by task, oldest first.
type History struct {
	AllocID         string             `json:"alloc_id"`
	IntervalSeconds float64            `json:"interval_seconds"`
	Tasks           map[string][]Point `json:"tasks"`
	// Absent says by task why the newest reading has no value for a measurement.
	Absent map[string]map[string]string `json:"absent"`
}

// Moment is the reading of each task that is nearest to a time; nil for tasks without any.
type Moment struct {
	AllocID string            `json:"alloc_id"`
	Asked   time.Time         `json:"asked"`
	Tasks   map[string]*Point `json:"tasks"`
}

// Point is one past reading, or a gap.
type Point struct {
	At time.Time `json:"at"`
	// Mono is the monotonic clock in seconds: rates divide by its differences.
	Mono float64 `json:"mono_seconds"`
	// Run counts the starts of the task; counters begin anew with each.
	Run int `json:"run"`
	// Gap says why there are no measurements until the next point.
	Gap          string             `json:"gap,omitempty"`
	Measurements map[string]float64 `json:"measurements,omitempty"`
	// Processes are those that used the most CPU time or memory, if they were asked for. One that is not among them may
	// have been there all the same.
	Processes []PointProcess `json:"processes,omitzero"`
}

// PointProcess is one process in a past reading, which has no texts.
type PointProcess = Process[float64]

// Process is one process in a reading.
type Process[V any] struct {
	PID          int          `json:"pid"`
	Start        uint64       `json:"start"`
	PPID         int          `json:"ppid"`
	Command      string       `json:"command"`
	Measurements map[string]V `json:"measurements"`
}

// Number returns a measurement of the process; ok is false if it was not read.
func (p *Process[V]) Number(id procstats.ID) (value float64, ok bool) {
	measured, found := p.Measurements[id.String()]
	value, ok = any(measured).(float64)
	return value, ok && found
}

// CommandLine returns the command line of the process, or its name if the agent does not show the command line.
func (p *Process[V]) CommandLine() string {
	if line, ok := any(p.Measurements[procstats.ProcessCmdline.String()]).(string); ok {
		return line
	}
	return p.Command
}

// Number returns a measurement of the point; ok is false if it was not read.
func (p *Point) Number(id procstats.ID) (value float64, ok bool) {
	value, ok = p.Measurements[id.String()]
	return value, ok
}

// ExecInput is a message to a command that runs beside a task: Nomad's api.ExecStreamingInput.
type ExecInput struct {
	Stdin   *ExecData `json:"stdin,omitempty"`
	TTYSize *ExecSize `json:"tty_size,omitempty"`
}

// ExecOutput is a message from such a command: Nomad's api.ExecStreamingOutput.
type ExecOutput struct {
	Stdout ExecData    `json:"stdout,omitzero"`
	Stderr ExecData    `json:"stderr,omitzero"`
	Exited bool        `json:"exited,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
}

// ExecData is a piece of a stream, or its end.
type ExecData struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecSize is the size of a terminal.
type ExecSize struct {
	Height int `json:"height"`
	Width  int `json:"width"`
}

// ExecResult is how the command ended.
type ExecResult struct {
	ExitCode int `json:"exit_code"`
}
