// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/http"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
)

// Allocations lists the allocations whose id begins with prefix, newest first.
func (c *Client) Allocations(ctx context.Context, prefix string) (Answer[[]apijson.Allocation], error) {
	return get[[]apijson.Allocation](ctx, c, "/v1/allocations", queryOf("prefix", prefix))
}

// Allocation returns the one allocation whose id begins with prefix.
func (c *Client) Allocation(ctx context.Context, prefix string, w Wait) (Answer[apijson.Allocation], error) {
	return getAfter[apijson.Allocation](ctx, c, pathOf("v1", "allocation", prefix), w)
}

// StopAllocation stops an allocation; another takes its place.
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

// Commands returns what the ended processes of a task used, by command. The error is not found (IsNotFound) if that is not counted.
func (c *Client) Commands(ctx context.Context, id, task string) (Answer[record.Commands], error) {
	return get[record.Commands](ctx, c, pathOf("v1", "client", "allocation", id, "commands"), queryOf("task", task))
}

// Record returns the final record of a task's last ended start. The error is not found (IsNotFound) if none has ended.
func (c *Client) Record(ctx context.Context, id, task string) (Answer[record.Record], error) {
	return get[record.Record](ctx, c, pathOf("v1", "client", "allocation", id, "record"), queryOf("task", task))
}
