// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package apijson has the JSON of the HTTP API, for the agent that writes it and for clients that read it: Nomad's,
// and in fields called Tacho what Nomad has no place for.
package apijson

import (
	"time"

	"github.com/tachograph/tacho/executor/record"
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

// Allocation is an allocation, of lists and of one.
type Allocation struct {
	ID, EvalID, Name, Namespace, NodeID, NodeName, JobID, JobType string

	JobVersion         uint64
	Job                any `json:",omitempty"`
	TaskGroup          string
	Resources          Resources            // of all tasks
	TaskResources      map[string]Resources // by task
	AllocatedResources Allocated
	// DesiredStatus is run or stop; ClientStatus is pending, running, complete or failed.
	DesiredStatus, DesiredDescription, ClientStatus, ClientDescription string

	TaskStates map[string]*TaskState

	DeploymentID                       string
	DeploymentStatus                   *struct{}
	NetworkStatus                      struct{ InterfaceName, Address string } // of networks that only a cluster makes
	PreviousAllocation, NextAllocation string
	PreemptedAllocations               []string
	PreemptedByAllocation              string
	RescheduleTracker                  *struct{}
	// FollowupEvalID is the decision to replace the allocation at a later time; empty if it is not replaced.
	FollowupEvalID string `json:",omitempty"`
	Metrics        AllocationMetrics

	CreateIndex, ModifyIndex, AllocModifyIndex uint64
	// CreateTime and ModifyTime are in nanoseconds since 1970.
	CreateTime, ModifyTime int64
}

// Ended reports whether no task of the allocation runs or will run again. One that failed may still be stopping others.
func (a *Allocation) Ended() bool {
	for _, s := range a.TaskStates {
		if s != nil && s.State != "dead" {
			return false
		}
	}
	return a.ClientStatus == "complete" || a.ClientStatus == "failed"
}

// Resources is Nomad's older form of resources, which its clients still read: MHz or whole cores, and MiB.
type Resources struct {
	CPU, Cores, MemoryMB, MemoryMaxMB, DiskMB, IOPS, SecretsMB int
	Networks, Devices                                          []struct{}
}

// Allocated is Nomad's newer form of resources.
type Allocated struct {
	Tasks  map[string]AllocatedTask
	Shared struct {
		DiskMB   int
		Networks []Network
		Ports    []Port
	}
}

// Network is what a group asks for, or has, on a network.
type Network struct {
	Mode, IP                    string
	DynamicPorts, ReservedPorts []Port
}

// Port is a port of a group. To is what the task is told, 0 for Value.
type Port struct {
	Label       string
	Value, To   int
	HostIP      string `json:",omitempty"`
	HostNetwork string `json:",omitempty"`
}

// AllocatedTask are the resources of one task.
type AllocatedTask struct {
	Cpu      struct{ CpuShares int } //nolint:revive // Nomad's key
	Memory   struct{ MemoryMB, MemoryMaxMB int }
	Networks []struct{}
	Devices  []struct{}
}

// AllocationMetrics say how the scheduler found the node, or why it found none. There is one node, and it is found at
// once.
type AllocationMetrics struct {
	NodesEvaluated, NodesFiltered, NodesInPool, NodesExhausted int
	NodesAvailable                                             map[string]int
	// ConstraintFiltered and DimensionExhausted count nodes by what prevents the placement.
	ConstraintFiltered, DimensionExhausted map[string]int `json:",omitempty"`
	AllocationTime                         int64
	// CoalescedFailures counts the allocations of the group beyond the first.
	CoalescedFailures int
}

// TaskState is the state of a task.
type TaskState struct {
	// State is pending, running or dead.
	State       string
	Failed      bool
	Restarts    int
	LastRestart time.Time
	// StartedAt and FinishedAt are zero if that has not happened.
	StartedAt, FinishedAt time.Time
	Events                []TaskEvent
	TaskHandle            *struct{}
	Tacho                 TaskDetails
}

// TaskDetails are what Nomad has no place for.
type TaskDetails struct {
	Driver string `json:"driver"`
	// Cores are the cores that the task has for itself, as a list such as 0-3,7.
	Cores string `json:"cores,omitempty"`
	// Exit is that of the last start that ended; nil before that.
	Exit *Exit `json:"exit,omitempty"`
	// Outcome is how the last start ended, in one word; empty while it runs.
	Outcome record.Outcome `json:"outcome,omitempty"`
	// LastEnd is how the task last ended, also while it runs again; nil before that.
	LastEnd *record.LastEnd `json:"last_end,omitempty"`
	// Labels say what a cgroup is of that is only watched: cgroup, unit, container, allocation, allocation_task.
	Labels     map[string]string `json:"labels,omitempty"`
	RunID      string            `json:"run_id,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Exit is how a start of a task ended.
type Exit struct {
	Code      int  `json:"code"`
	Signal    int  `json:"signal"`
	OOMKilled bool `json:"oom_killed"`
	Lost      bool `json:"lost,omitempty"`
	// Cause is on whose account the task ended: task, operator or host.
	Cause string    `json:"cause,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// TaskEvent is an event of a task.
type TaskEvent struct {
	Type string
	// Time is in nanoseconds since 1970.
	Time                    int64
	Message, DisplayMessage string
	Details                 map[string]string
	FailsTask               bool
	// ExitCode and Signal are of a task that has ended.
	ExitCode, Signal int
}
