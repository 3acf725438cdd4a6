// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// PlanJob returns what RunJob would do, and changes nothing.
func (a *Agent) PlanJob(ctx context.Context, source job.Source) (*snapshot.Plan, error) {
	j, err := a.Validate(ctx, source)
	if err != nil {
		return nil, err
	}
	plan := &snapshot.Plan{Job: j, Groups: make(map[string]snapshot.Changes)}
	if now, err := a.job(j.ID); err == nil {
		plan.Now = now
	}
	a.registering.Lock()
	defer a.registering.Unlock()
	surplus, missing := a.compare(j)
	for _, g := range j.Groups {
		plan.Groups[g.Name] = snapshot.Changes{Ignore: g.Count}
	}
	type slot struct {
		group string
		index int
	}
	placed := make(map[slot]bool)
	for _, v := range missing {
		c := plan.Groups[v.group.Name]
		c.Place, c.Ignore = c.Place+1, c.Ignore-1
		plan.Groups[v.group.Name], placed[slot{v.group.Name, v.index}] = c, true
	}
	for _, l := range surplus {
		c, s := plan.Groups[l.Group], slot{l.Group, l.Index}
		if placed[s] {
			c.Place, c.Replace = c.Place-1, c.Replace+1
			delete(placed, s)
		} else {
			c.Stop++
		}
		plan.Groups[l.Group] = c
	}
	plan.Unplaced = a.place(j, surplus, missing).unplaced
	return plan, nil
}

// ScaleJob changes how many allocations a group has; changed is false if it has as many.
func (a *Agent) ScaleJob(
	ctx context.Context, id, group string, count int,
) (status *snapshot.Job, changed bool, err error) {
	for {
		now, err := a.job(id)
		if err != nil {
			return nil, false, err
		}
		source, err := scaled(now, group, count)
		if err != nil {
			return nil, false, refused{fmt.Errorf("scale job %s: %w", id, err)}
		}
		status, changed, err := a.RunJob(ctx, source, &now.ModifyIndex)
		if !errors.Is(err, allocation.ErrChanged) {
			return status, changed, err
		}
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

// StopJob stops all allocations of a job; with purge the job is forgotten too. The error is allocation.ErrChanged if
// expected, which may be nil, is not the index of the job's last change.
func (a *Agent) StopJob(id string, purge bool, expected *uint64) error {
	if err := a.isReady(); err != nil {
		return err
	}
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	r := a.jobs[id]
	if r == nil || !r.current.Current {
		a.mu.Unlock()
		return fmt.Errorf("job %q: %w", id, allocation.ErrNotFound)
	}
	if expected != nil && *expected != r.current.ModifyIndex {
		a.mu.Unlock()
		return allocation.ErrChanged
	}
	r.current.Stopped, r.current.Current, r.current.Unplaced, r.unplaced = true, !purge, nil, nil
	persisted := r.current
	a.mu.Unlock()
	e := snapshot.Event{
		Topic: snapshot.TopicJob, Type: "JobDeregistered", Key: id, Namespace: persisted.Spec.Namespace,
	}
	persisted.ModifyIndex = a.host.Feed.Publish(e)
	a.host.Persist(state.ChangeJob(&persisted))
	failpoint.At("agent.stop.persisted")
	a.stopAllocs(id)
	a.mu.Lock()
	r.current = persisted
	a.mu.Unlock()
	return nil
}

// stopAllocs stops the allocations of a job that was stopped.
func (a *Agent) stopAllocs(id string) {
	all := slices.DeleteFunc(a.list(), func(l *alloc.Alloc) bool { return l.JobID != id || l.Dead() })
	alloc.StopAll(all, "the job was stopped")
}
