// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
)

// errJobChanged says that a job is not the one any more that a change of it was derived from.
var errJobChanged = errors.New("the job has changed meanwhile")

// ScaleJob changes how many allocations a group has; changed is false if it has as many.
func (a *Agent) ScaleJob(ctx context.Context, id, group string, count int) (status *snapshot.Job, changed bool, err error) {
	for {
		now, err := a.job(id)
		if err != nil {
			return nil, false, err
		}
		source, err := scaled(now, group, count)
		if err != nil {
			return nil, false, refused{fmt.Errorf("scale job %s: %w", id, err)}
		}
		status, changed, err := a.runJob(ctx, source, unchanged(now))
		if !errors.Is(err, errJobChanged) {
			return status, changed, err
		}
	}
}

// unchanged checks that a job which runs is still what it was.
func unchanged(now *snapshot.Job) func(state.Job) error {
	return func(was state.Job) error {
		if was.Version != now.Version || !was.Current || was.Stopped {
			return errJobChanged
		}
		return nil
	}
}

// scaled returns the source of a job with another number of allocations of a group.
func scaled(now *snapshot.Job, group string, count int) (source job.Source, err error) {
	source = now.Job.Source
	switch {
	case now.Stopped:
		return source, errors.New("the job is stopped")
	case now.Job.Group(group) == nil:
		return source, fmt.Errorf("no group %q", group)
	case count < 0 || count > job.MaxCount:
		return source, fmt.Errorf("count %d: must be from 0 to %d", count, job.MaxCount)
	}
	if source.Counts = maps.Clone(source.Counts); source.Counts == nil {
		source.Counts = make(map[string]int)
	}
	source.Counts[group] = count
	return source, nil
}
