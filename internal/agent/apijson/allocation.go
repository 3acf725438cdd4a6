// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package apijson

import (
	"time"

	"github.com/tachograph/tacho/executor/record"
)

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
