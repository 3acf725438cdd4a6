// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"time"

	"github.com/tachograph/tacho/executor/proto"
)

// Launch is what an executor is asked for, and the time between two sets of process rows.
type Launch struct {
	*proto.LaunchRequest
	RowInterval time.Duration
}

// LaunchRequest returns what an executor is asked for.
func LaunchRequest(config Config, task *TaskConfig) (*Launch, error) {
	request, err := new(Tacho).launchRequest(task, task.Block, config)
	return &Launch{request, config.of(task).RowInterval}, err
}

// EndUnconfirmed ends the tasks that were started before a time and that no host knows of.
func (d *Tacho) EndUnconfirmed(ctx context.Context, before time.Time, forget bool) (unclaimed bool) {
	return d.endUnconfirmed(ctx, before, forget)
}

// ExecutorID names a task's executor, and its directory.
func ExecutorID(task *TaskConfig) string { return executorID(task) }
