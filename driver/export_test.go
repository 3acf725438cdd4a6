// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"

	"github.com/tachograph/tacho/executor/proto"
)

// DecodeBlock is how a config block is read that comes over a wire.
var DecodeBlock = decodeBlock

// LaunchRequest is what an executor is told to start.
func LaunchRequest(config Config, task *TaskConfig) (*proto.LaunchRequest, error) {
	return new(Tacho).launchRequest(task, task.Block, config)
}

// RowInterval is the time between two sets of process rows of a task.
func RowInterval(config Config, block *ConfigBlock) time.Duration {
	return config.Rows.of(&TaskConfig{Block: block}).Interval
}

// EndUnconfirmed ends the tasks that were started before a time and that no host knows of.
func (d *Tacho) EndUnconfirmed(ctx context.Context, before time.Time, forget bool) {
	d.endUnconfirmed(ctx, before, forget)
}

// ExecutorID names a task's executor, and its directory.
func ExecutorID(task *TaskConfig) string { return executorID(task) }
