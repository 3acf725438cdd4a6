// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/job"
)

// allocations lists the allocations that match.
func (q *request) allocations(match func(*allocation.Allocation) bool) []*apijson.Allocation {
	list := []*apijson.Allocation{}
	for _, a := range q.now.Allocations {
		if match(a) {
			list = append(list, newAllocationJSON(a, q.trusted))
		}
	}
	return list
}

func (s *Server) listAllocations(q *request) (any, error) {
	prefix := strings.ToLower(q.values.Get("prefix"))
	return q.allocations(func(a *allocation.Allocation) bool {
		return q.inNamespace(a.Namespace) && strings.HasPrefix(a.ID, prefix)
	}), nil
}

func (s *Server) readAllocation(q *request, a *allocation.Allocation) (any, error) {
	shown := newAllocationJSON(a, q.trusted)
	q.addJob(shown)
	return shown, nil
}

// addJob adds an allocation's job, unless it was purged.
func (q *request) addJob(a *apijson.Allocation) {
	if j, err := q.now.Job(a.JobID); err == nil {
		a.Job = newJobJSON(j, q.trusted)
	}
}

func (s *Server) stopAllocation(_ *request, a *allocation.Allocation) (any, error) {
	if err := s.agent.ReplaceAlloc(a.ID); err != nil {
		return nil, err
	}
	return map[string]any{"EvalID": decisionID(allocStopped, a), "Index": s.index()}, nil
}

func (s *Server) restartAllocation(q *request, a *allocation.Allocation) (any, error) {
	var body struct {
		TaskName string
		AllTasks bool
	}
	if q.ContentLength != 0 { // as in Nomad, where no body means all running tasks
		if err := q.readBody(&body); err != nil {
			return nil, err
		}
	}
	for name, t := range a.Tasks {
		if body.AllTasks && t.State.Phase == hook.PhaseDead {
			return nil, badRequest("restart of ended tasks is not supported, and " + name +
				" has ended; without AllTasks the running ones are restarted")
		}
	}
	if err := checkTask(a, body.TaskName); err != nil {
		return nil, err
	}
	return map[string]any{"Index": s.index()}, s.agent.RestartAlloc(a.ID, body.TaskName)
}

func (s *Server) signalAllocation(q *request, a *allocation.Allocation) (any, error) {
	var body struct{ Signal, Task string }
	if err := q.readBody(&body); err != nil {
		return nil, err
	}
	if body.Signal == "" {
		return nil, badRequest("the body names no signal")
	}
	if err := checkTask(a, body.Task); err != nil {
		return nil, err
	}
	return map[string]any{"Index": s.index()}, s.agent.SignalAlloc(q.Context(), a.ID, body.Task, body.Signal)
}

// newAllocationJSON returns an allocation; for untrusted callers its names, numbers and states only.
func newAllocationJSON(a *allocation.Allocation, trusted bool) *apijson.Allocation {
	shown := &apijson.Allocation{
		ID: a.ID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID, NodeName: a.NodeName,
		JobID: a.JobID, JobType: a.JobType, JobVersion: a.JobVersion, TaskGroup: a.Group,
		EvalID:             versionID(registered, a.Namespace, a.JobID, a.JobVersion),
		TaskResources:      map[string]apijson.Resources{},
		AllocatedResources: apijson.Allocated{Tasks: map[string]apijson.AllocatedTask{}},
		DesiredStatus:      a.DesiredStatus, ClientStatus: string(a.ClientStatus),
		PreviousAllocation: a.Previous, NextAllocation: a.Next,
		TaskStates: map[string]*apijson.TaskState{}, PreemptedAllocations: []string{},
		Metrics:     apijson.AllocationMetrics{NodesEvaluated: 1, NodesInPool: 1, NodesAvailable: map[string]int{}},
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex, AllocModifyIndex: a.ModifyIndex,
		CreateTime: a.CreateTime.UnixNano(), ModifyTime: a.ModifyTime.UnixNano(),
	}
	if trusted {
		shown.ClientDescription = a.Description
	}
	if !a.Rescheduled.IsZero() {
		shown.FollowupEvalID = decisionID(rescheduled, a)
	}
	shared := &shown.AllocatedResources.Shared
	for _, p := range a.Ports {
		shared.Ports = append(shared.Ports, apijson.Port{Label: p.Label, Value: p.Value, To: p.To, HostIP: p.HostIP})
		shared.Networks = []apijson.Network{{Mode: "host", IP: a.Ports[0].HostIP, DynamicPorts: shared.Ports}}
	}
	for name, t := range a.Tasks {
		shown.TaskStates[name] = newTaskState(t, trusted)
		addResources(shown, name, t.Resources)
	}
	return shown
}

func newResources(r job.Resources) apijson.Resources {
	return apijson.Resources{CPU: r.CPU, Cores: r.Cores, MemoryMB: r.MemoryMB, MemoryMaxMB: r.MemoryMaxMB}
}

func addResources(a *apijson.Allocation, task string, r job.Resources) {
	a.TaskResources[task] = newResources(r)
	a.Resources.CPU += r.CPU
	a.Resources.Cores += r.Cores
	a.Resources.MemoryMB += r.MemoryMB
	a.Resources.MemoryMaxMB += r.MemoryMaxMB
	allocated := apijson.AllocatedTask{}
	allocated.Cpu.CpuShares = r.CPU
	allocated.Memory.MemoryMB, allocated.Memory.MemoryMaxMB = r.MemoryMB, r.MemoryMaxMB
	a.AllocatedResources.Tasks[task] = allocated
}

func newTaskState(t *allocation.Task, trusted bool) *apijson.TaskState {
	events, attributes := t.Details()
	shown := &apijson.TaskState{
		State: string(cmp.Or(t.State.Phase, hook.PhasePending)), Failed: t.State.Failed, Restarts: t.State.Restarts,
		LastRestart: t.State.LastRestart, StartedAt: t.State.StartedAt, FinishedAt: t.State.FinishedAt,
		Events: make([]apijson.TaskEvent, 0, len(events)),
		Tacho:  apijson.TaskDetails{Driver: t.Driver, Cores: t.Cores},
	}
	if t.State.Phase != hook.PhaseRunning {
		shown.Tacho.Outcome = t.Outcome
	}
	if end := t.LastEnd(); end.Outcome != "" {
		shown.Tacho.LastEnd = &end
	}
	if e := t.State.Exit; e != nil {
		shown.Tacho.Exit = &apijson.Exit{
			Code: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, Lost: e.Lost != "", Cause: string(e.Cause), At: e.At,
		}
	}
	if t.Driver == allocation.Watch {
		shown.Tacho.Labels = t.Meta
	}
	if trusted {
		shown.Tacho.RunID, shown.Tacho.Attributes = t.RunID, attributes
	}
	for i := range events {
		shown.Events = append(shown.Events, newTaskEvent(&events[i], trusted))
	}
	return shown
}

// hidden replaces a message. Clients make one up if it is empty.
const hidden = "(hidden: sign in with the token, or use the unix socket)"

// newTaskEvent returns an event, redacted for untrusted callers.
func newTaskEvent(e *allocation.Event, trusted bool) apijson.TaskEvent {
	shown := apijson.TaskEvent{Type: string(e.Type), Time: e.Time.UnixNano(), Details: map[string]string{}}
	shown.ExitCode, _ = strconv.Atoi(e.Details[allocation.DetailExitCode])
	shown.Signal, _ = strconv.Atoi(e.Details[allocation.DetailSignal])
	var redacted bool
	if shown.Message, redacted = e.MessageFor(trusted); redacted {
		shown.Message = hidden
	}
	if trusted || e.Public() {
		maps.Copy(shown.Details, e.Details)
	}
	shown.DisplayMessage = shown.Message
	return shown
}
