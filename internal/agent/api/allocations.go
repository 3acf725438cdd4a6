// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/shape"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// allocations lists some of the allocations.
func allocations(r *http.Request, now *snapshot.Agent, some func(*allocation.Allocation) bool) []*shape.Allocation {
	list := []*shape.Allocation{}
	for _, a := range now.Allocations {
		if some(a) {
			list = append(list, newAllocationJSON(a, Trusted(r.Context())))
		}
	}
	return list
}

// listAllocations is GET /v1/allocations.
func (s *Server) listAllocations(r *http.Request, now *snapshot.Agent) (any, error) {
	prefix := strings.ToLower(r.URL.Query().Get("prefix"))
	return allocations(r, now, func(a *allocation.Allocation) bool {
		return inNamespace(r, a.Namespace) && strings.HasPrefix(a.ID, prefix)
	}), nil
}

// allocationOf returns the allocation of a request's path; prefixes are taken too.
func allocationOf(r *http.Request, now *snapshot.Agent) (*allocation.Allocation, error) {
	return now.Allocation(strings.ToLower(r.PathValue("id")))
}

// readAllocation is GET /v1/allocation/ID.
func (s *Server) readAllocation(r *http.Request, now *snapshot.Agent, a *allocation.Allocation) (any, error) {
	shown := newAllocationJSON(a, Trusted(r.Context()))
	addJob(shown, r, now)
	return shown, nil
}

// addJob adds an allocation's job, if it was not purged.
func addJob(a *shape.Allocation, r *http.Request, now *snapshot.Agent) {
	if j, err := now.Job(a.JobID); err == nil {
		a.Job = newJobJSON(j, Trusted(r.Context()))
	}
}

// nodeAllocations is GET /v1/node/ID/allocations.
func (s *Server) nodeAllocations(r *http.Request, now *snapshot.Agent) (any, error) {
	if err := checkNode(now, r.PathValue("id")); err != nil {
		return nil, err
	}
	list := allocations(r, now, func(a *allocation.Allocation) bool { return inNamespace(r, a.Namespace) })
	for _, shown := range list {
		addJob(shown, r, now)
	}
	return list, nil
}

// stopAllocation is PUT /v1/allocation/ID/stop.
func (s *Server) stopAllocation(_ *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	if err := s.agent.ReplaceAlloc(a.ID); err != nil {
		return nil, err
	}
	return map[string]any{"EvalID": stopID(a), "Index": s.index()}, nil
}

// restartAllocation is PUT /v1/client/allocation/ID/restart.
func (s *Server) restartAllocation(r *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	var body struct {
		TaskName string
		AllTasks bool
	}
	if r.ContentLength != 0 { // as in Nomad, where no body is all tasks that run
		if err := readBody(r, &body); err != nil {
			return nil, err
		}
	}
	for name, t := range a.Tasks {
		if body.AllTasks && t.State.Phase == hook.PhaseDead {
			return nil, badRequest("restart of ended tasks is not supported, and " + name + " has ended; without AllTasks the running ones are restarted")
		}
	}
	if err := checkTask(a, body.TaskName); err != nil {
		return nil, err
	}
	return map[string]any{"Index": s.index()}, s.agent.RestartAlloc(a.ID, body.TaskName)
}

// signalAllocation is PUT /v1/client/allocation/ID/signal.
func (s *Server) signalAllocation(r *http.Request, _ *snapshot.Agent, a *allocation.Allocation) (any, error) {
	var body struct{ Signal, Task string }
	if err := readBody(r, &body); err != nil {
		return nil, err
	}
	if body.Signal == "" {
		return nil, badRequest("the body names no signal")
	}
	if err := checkTask(a, body.Task); err != nil {
		return nil, err
	}
	return map[string]any{"Index": s.index()}, s.agent.SignalAlloc(r.Context(), a.ID, body.Task, body.Signal)
}

// checkTask refuses a name that no task of the allocation has; empty is all tasks.
func checkTask(a *allocation.Allocation, task string) error {
	if _, ok := a.Tasks[task]; !ok && task != "" {
		return allocation.NoTask(a.ID, task, slices.Collect(maps.Keys(a.Tasks)))
	}
	return nil
}

// onlyTask returns the task that a request names, or the only one there is.
func onlyTask(r *http.Request, a *allocation.Allocation) (string, error) {
	task := r.URL.Query().Get("task")
	if task == "" && len(a.Tasks) == 1 {
		for task = range a.Tasks {
			return task, nil
		}
	}
	if task == "" {
		return "", badRequest("the allocation has several tasks; name one with ?task=NAME")
	}
	return task, checkTask(a, task)
}
