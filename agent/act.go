// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"

	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/driver"
)

// Validate reads a job file and checks it as RunJob would, and changes nothing. Errors have file, line and column.
func (a *Agent) Validate(ctx context.Context, source job.Source) (*job.Job, error) { return nil, errNotReady }

// RunJob registers a job and starts its allocations. Allocations of an earlier version go on where their group means
// the same, and are stopped where it does not. changed is false where the very same job is there already.
func (a *Agent) RunJob(ctx context.Context, source job.Source) (status JobStatus, changed bool, err error) {
	return JobStatus{}, false, errNotReady
}

// StopJob stops all allocations of a job; with purge the job is forgotten too.
func (a *Agent) StopJob(id string, purge bool) error { return errNotReady }

// StopAlloc stops an allocation for good, by its full id.
func (a *Agent) StopAlloc(id string) error { return errNotReady }

// RestartAlloc restarts the running tasks of an allocation, or the one that is named.
func (a *Agent) RestartAlloc(id, task string) error { return errNotReady }

// SignalAlloc sends a signal by name (SIGHUP) to the running tasks of an allocation, or to the one that is named.
func (a *Agent) SignalAlloc(ctx context.Context, id, task, signal string) error { return errNotReady }

// ExecTask runs a command beside a running task, as long as ctx lives. task may be empty where there is only one.
func (a *Agent) ExecTask(ctx context.Context, id, task string, o driver.ExecOptions) (driver.ExecStream, error) {
	return nil, errNotReady
}

// CollectGarbage removes all ended allocations now and returns how many.
func (a *Agent) CollectGarbage() (removed int, err error) { return 0, errNotReady }
