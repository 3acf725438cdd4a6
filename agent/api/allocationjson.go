// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"
	"time"

	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/hook"
)

// allocationJSON is an allocation in Nomad's shape, of lists and of one.
type allocationJSON struct {
	ID, EvalID, Name, Namespace, NodeID, NodeName string

	JobID, JobType        string
	JobVersion            uint64
	Job                   *jobJSON `json:",omitempty"`
	TaskGroup             string
	Resources             *resourcesJSON           // of all tasks
	TaskResources         map[string]resourcesJSON // by task
	AllocatedResources    *allocatedJSON
	DesiredStatus         string
	DesiredDescription    string
	ClientStatus          string
	ClientDescription     string
	TaskStates            map[string]*taskState
	DeploymentID          string
	DeploymentStatus      *struct{}
	PreviousAllocation    string
	NextAllocation        string
	PreemptedAllocations  []string
	PreemptedByAllocation string
	RescheduleTracker     *struct{}
	Metrics               allocMetrics
	CreateIndex           uint64
	ModifyIndex           uint64
	AllocModifyIndex      uint64
	CreateTime            int64
	ModifyTime            int64
}

// resourcesJSON is Nomad's older form of resources, which its clients still read.
type resourcesJSON struct {
	CPU, Cores, MemoryMB, MemoryMaxMB, DiskMB int
	Networks, Devices                         []struct{}
}

type allocatedJSON struct {
	Tasks  map[string]allocatedTask
	Shared struct {
		DiskMB   int
		Networks []struct{}
		Ports    []struct{}
	}
}

type allocatedTask struct {
	Cpu      struct{ CpuShares int } //nolint:revive // Nomad's key
	Memory   struct{ MemoryMB, MemoryMaxMB int }
	Networks []struct{}
	Devices  []struct{}
}

// allocMetrics say how the scheduler found the node. There is one node, and it was found at once.
type allocMetrics struct {
	NodesEvaluated, NodesFiltered, NodesInPool, NodesExhausted int
	NodesAvailable                                             map[string]int
	AllocationTime                                             int64
	CoalescedFailures                                          int
}

type taskState struct {
	State       string
	Failed      bool
	Restarts    int
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []taskEvent
	TaskHandle  *struct{}
	// Tacho is what Nomad has no place for.
	Tacho *taskStateTacho
}

type taskStateTacho struct {
	Driver string    `json:"driver"`
	Cores  string    `json:"cores,omitempty"`
	Exit   *exitJSON `json:"exit,omitempty"`
	// Outcome is how the last start ended, in one word.
	Outcome string            `json:"outcome,omitempty"`
	RunID   string            `json:"run_id,omitempty"`
	Facts   map[string]string `json:"attributes,omitempty"`
}

type exitJSON struct {
	Code      int       `json:"code"`
	Signal    int       `json:"signal"`
	OOMKilled bool      `json:"oom_killed"`
	Lost      bool      `json:"lost,omitempty"`
	At        time.Time `json:"at,omitzero"`
}

// taskEvent is an event in Nomad's shape.
type taskEvent struct {
	Type           string
	Time           int64
	Message        string
	DisplayMessage string
	Details        map[string]string
	FailsTask      bool
}

// newAllocationJSON returns an allocation; without trust its names, numbers and states only.
func newAllocationJSON(a *allocation.Allocation, trusted bool) *allocationJSON {
	shown := &allocationJSON{
		ID: a.ID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName,
		JobID: a.JobID, JobType: a.JobType, JobVersion: a.JobVersion, TaskGroup: a.Group,
		EvalID:    versionID(registered, a.Namespace, a.JobID, a.JobVersion),
		Resources: &resourcesJSON{}, TaskResources: map[string]resourcesJSON{},
		AllocatedResources: &allocatedJSON{Tasks: map[string]allocatedTask{}},
		DesiredStatus:      a.DesiredStatus, ClientStatus: string(a.ClientStatus),
		TaskStates: map[string]*taskState{}, PreemptedAllocations: []string{},
		Metrics:     allocMetrics{NodesEvaluated: 1, NodesInPool: 1, NodesAvailable: map[string]int{}},
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, AllocModifyIndex: a.ModifyIndex,
		CreateTime: a.CreateTime.UnixNano(), ModifyTime: a.ModifyTime.UnixNano(),
	}
	if trusted {
		shown.ClientDescription = a.Description
	}
	for name, t := range a.Tasks {
		shown.TaskStates[name] = newTaskState(t, trusted)
		addResources(shown, name, t.Resources)
	}
	return shown
}

func addResources(a *allocationJSON, task string, r job.Resources) {
	a.TaskResources[task] = resourcesJSON{CPU: r.CPU, Cores: r.Cores, MemoryMB: r.MemoryMB, MemoryMaxMB: r.MemoryMaxMB}
	a.Resources.CPU += r.CPU
	a.Resources.Cores += r.Cores
	a.Resources.MemoryMB += r.MemoryMB
	a.Resources.MemoryMaxMB += r.MemoryMaxMB
	allocated := allocatedTask{}
	allocated.Cpu.CpuShares = r.CPU
	allocated.Memory.MemoryMB, allocated.Memory.MemoryMaxMB = r.MemoryMB, r.MemoryMaxMB
	a.AllocatedResources.Tasks[task] = allocated
}

func newTaskState(t *allocation.Task, trusted bool) *taskState {
	shown := &taskState{
		State: string(t.State.Phase), Failed: t.State.Failed, Restarts: t.State.Restarts,
		LastRestart: t.State.LastRestart, StartedAt: t.State.StartedAt, FinishedAt: t.State.FinishedAt,
		Events: make([]taskEvent, 0, len(t.Events)),
		Tacho:  &taskStateTacho{Driver: t.Driver, Cores: t.Cores, Outcome: string(t.Outcome)},
	}
	if shown.State == "" {
		shown.State = string(hook.PhasePending)
	}
	if e := t.State.Exit; e != nil {
		shown.Tacho.Exit = &exitJSON{Code: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, Lost: e.Lost != "", At: e.At}
	}
	if trusted {
		shown.Tacho.RunID, shown.Tacho.Facts = t.RunID, t.Attributes
	}
	for i := range t.Events {
		shown.Events = append(shown.Events, newTaskEvent(&t.Events[i], trusted))
	}
	return shown
}

// hidden stands for a message. Empty would not do: clients make one up then.
const hidden = "(hidden: sign in with the token, or use the unix socket)"

// newTaskEvent returns an event, without trust only with a message that everybody may see.
func newTaskEvent(e *allocation.Event, trusted bool) taskEvent {
	shown := taskEvent{Type: string(e.Type), Time: e.Time.UnixNano(), Details: map[string]string{}}
	switch {
	case trusted:
		shown.Message = e.Message
		maps.Copy(shown.Details, e.Details)
	case e.Public():
		shown.Message = e.Message
	case e.Message != "":
		shown.Message = hidden
	}
	shown.DisplayMessage = shown.Message
	return shown
}
