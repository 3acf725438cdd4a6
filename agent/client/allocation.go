// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/tachograph/tacho/executor/record"
)

// Allocation is one run of a job's group.
type Allocation struct {
	ID, Name, Namespace, NodeName, JobID, JobType, TaskGroup string
	JobVersion                                               uint64
	// DesiredStatus is run or stop; ClientStatus pending, running, complete or failed, which ClientDescription explains.
	DesiredStatus, ClientStatus, ClientDescription string
	TaskResources                                  map[string]Resources
	TaskStates                                     map[string]*TaskState
	// CreateTime and ModifyTime are in nanoseconds since 1970.
	CreateTime, ModifyTime int64
}

// Ended reports whether no task of the allocation runs or will run again. One that failed may still be ending others.
func (a *Allocation) Ended() bool {
	for _, s := range a.TaskStates {
		if s != nil && s.State != "dead" {
			return false
		}
	}
	return a.ClientStatus == "complete" || a.ClientStatus == "failed"
}

// TaskState is what a task has come to.
type TaskState struct {
	// State is pending, running or dead.
	State    string
	Failed   bool
	Restarts int
	// StartedAt and FinishedAt are zero where that has not happened.
	StartedAt, FinishedAt time.Time
	Events                []TaskEvent
	Tacho                 struct {
		Driver string `json:"driver"`
		Cores  string `json:"cores"`
		// Exit is that of the last start that ended; nil before that.
		Exit *struct {
			Code      int  `json:"code"`
			Signal    int  `json:"signal"`
			OOMKilled bool `json:"oom_killed"`
			Lost      bool `json:"lost"`
		} `json:"exit"`
		// Outcome is how the last start ended, in one word; empty while it runs.
		Outcome    record.Outcome    `json:"outcome"`
		Attributes map[string]string `json:"attributes"`
	}
}

// TaskEvent is one line in a task's history.
type TaskEvent struct {
	Type string
	// Time is in nanoseconds since 1970.
	Time           int64
	DisplayMessage string
	Details        map[string]string
}

// Allocations lists the allocations whose id begins with prefix, newest first.
func (c *Client) Allocations(ctx context.Context, prefix string) (Answer[[]Allocation], error) {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return get[[]Allocation](ctx, c, "/v1/allocations", query)
}

// Allocation returns the one allocation whose id begins with prefix.
func (c *Client) Allocation(ctx context.Context, prefix string, w Wait) (Answer[Allocation], error) {
	return do[Allocation](ctx, c, call{
		method: http.MethodGet, path: pathOf("v1", "allocation", prefix), query: w.add(url.Values{}), patience: w.For,
	})
}

// StopAllocation stops an allocation for good.
func (c *Client) StopAllocation(ctx context.Context, id string) error {
	_, err := do[any](ctx, c, call{method: http.MethodPut, path: pathOf("v1", "allocation", id, "stop")})
	return err
}

// RestartAllocation restarts the running tasks, or the one that is named.
func (c *Client) RestartAllocation(ctx context.Context, id, task string) error {
	return c.act(ctx, id, "restart", map[string]string{"TaskName": task})
}

// SignalAllocation sends a signal by name to the running tasks, or to the one that is named.
func (c *Client) SignalAllocation(ctx context.Context, id, task, signal string) error {
	return c.act(ctx, id, "signal", map[string]string{"Task": task, "Signal": signal})
}

func (c *Client) act(ctx context.Context, id, verb string, body map[string]string) error {
	_, err := do[any](ctx, c, call{method: http.MethodPut, path: pathOf("v1", "client", "allocation", id, verb), body: body})
	return err
}

// Record returns the final record of a task's last ended start. The error is not found (IsNotFound) where none has ended.
func (c *Client) Record(ctx context.Context, id, task string) (Answer[record.Record], error) {
	return get[record.Record](ctx, c, pathOf("v1", "client", "allocation", id, "record"), taskQuery(task))
}

// taskQuery names a task; empty for the only one, or for all.
func taskQuery(task string) url.Values {
	query := url.Values{}
	if task != "" {
		query.Set("task", task)
	}
	return query
}
