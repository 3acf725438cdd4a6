// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// registered is a job with its versions: the current one, and those that allocations still refer to.
type registered struct {
	current  state.Job
	versions map[uint64]bool
	// unplaced are the allocations of the current version that wait for a place.
	unplaced map[string]*snapshot.Unplaced
}

// jobVersion names a version of a job.
type jobVersion struct {
	id string
	n  uint64
}

// remember adds a version of a job.
func (a *Agent) remember(v state.Job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.jobs[v.ID]
	if r == nil {
		r = &registered{versions: make(map[uint64]bool)}
		a.jobs[v.ID] = r
	}
	r.versions[v.Version] = true
	// A job that was purged has no current version.
	if v.Current || !r.current.Current && v.Version >= r.current.Version {
		r.current = v
	}
}

// currentVersion returns the version of a job whose allocations are to run; it has no Spec if the job is stopped or
// unknown.
func (a *Agent) currentVersion(id string) state.Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.jobs[id]
	if r == nil || !r.current.Current || r.current.Stopped {
		return state.Job{}
	}
	return r.current
}

// Validate reads a job file and checks it as RunJob would, and changes nothing. Errors have file, line and column.
func (a *Agent) Validate(ctx context.Context, source job.Source) (*job.Job, error) {
	if err := a.isReady(); err != nil {
		return nil, err
	}
	if err := job.Check(ctx, source); err != nil {
		return nil, err
	}
	file, err := job.Read(source)
	if err != nil {
		return nil, err
	}
	if err := a.check(ctx, file); err != nil {
		if ctx.Err() != nil { // which says nothing about the job
			return nil, err
		}
		return nil, refused{err}
	}
	file.Notes = append(file.Notes, a.placementNotes(file.Job)...)
	return file.Job, nil
}

// refused marks what is wrong with a job, and not with the agent.
type refused struct{ error }

// Is reports that it is an invalid request.
func (refused) Is(target error) bool { return target == driver.ErrInvalid }

// Unwrap returns what is wrong.
func (r refused) Unwrap() error { return r.error }

// check refuses a job that this machine cannot run. The error names all reasons.
func (a *Agent) check(ctx context.Context, file *job.File) error {
	j, n := file.Job, &a.host.Node
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, n.Datacenter)
		return err == nil && ok
	}
	var errs []error
	if !slices.ContainsFunc(j.Datacenters, matches) {
		err := fmt.Errorf("job %s is for %q, this agent is in %q", j.ID, j.Datacenters, n.Datacenter)
		errs = append(errs, j.Places.Fault("datacenters", err))
	}
	if j.Region != n.Region {
		err := fmt.Errorf("job %s is for %q, this agent is in %q", j.ID, j.Region, n.Region)
		errs = append(errs, j.Places.Fault("region", err))
	}
	return job.JoinMistakes(append(errs, a.host.Check(ctx, file))...)
}

// RunJob registers a job and starts its allocations; those that this node cannot run wait until it can. Allocations
// of an earlier version go on if their group means the same, and are stopped if not. changed is false if nothing had
// to be done. The error is allocation.ErrChanged if expected, which may be nil, is not the index of the job's last
// change; 0 stands for a job that is not registered.
func (a *Agent) RunJob(
	ctx context.Context, source job.Source, expected *uint64,
) (status *snapshot.Job, changed bool, err error) {
	j, err := a.Validate(ctx, source)
	if err != nil {
		return nil, false, err
	}
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	before, known := a.jobs[j.ID]
	var was state.Job
	if known {
		was = before.current
	}
	a.mu.Unlock()
	index := uint64(0)
	if was.Current {
		index = was.ModifyIndex
	}
	if expected != nil && *expected != index {
		return nil, false, allocation.ErrChanged
	}
	if was.Current && !was.Stopped && was.Spec.Namespace != j.Namespace {
		err := fmt.Errorf("job %s: registered in namespace %s; jobs of all namespaces share their IDs here",
			j.ID, was.Spec.Namespace)
		return nil, false, refused{err}
	}
	surplus, missing := a.compare(j)
	p := a.place(j, surplus, missing)
	if known && was.Current && !was.Stopped && len(p.stop)+len(p.fill) == 0 && same(was, j) {
		status, err = a.job(j.ID)
		return status, false, err
	}
	now := state.Job{
		ID: j.ID, Source: source, SubmitTime: time.Now(), Current: true, Spec: j, Digests: digests(j),
		Unplaced: indexes(p.unplaced),
	}
	if known {
		now.Version = was.Version + 1
	}
	if was.Current { // a purged job is another job of the name
		now.CreateIndex = was.CreateIndex
	}
	if err := a.register(now, was, p); err != nil {
		return nil, false, err
	}
	a.setUnplaced(j.ID, p.unplaced)
	a.retryPlacement() // something may have become free before the job waited for it
	status, err = a.job(j.ID)
	return status, true, err
}

// same reports whether a job means what is registered, whatever it was read from. A job file with other notes is
// another one; a job in JSON has lost what they are about.
func same(was state.Job, j *job.Job) bool {
	return was.Spec.Same(j) &&
		(j.Source.IsJSON() || j.Source.Text == was.Source.Text || slices.Equal(was.Spec.Notes, j.Notes))
}

// digests are those of a job's groups, by name.
func digests(j *job.Job) map[string]string {
	all := make(map[string]string, len(j.Groups))
	for _, g := range j.Groups {
		all[g.Name] = g.Digest
	}
	return all
}

// newerVersion is why an allocation of an earlier version of a job ends.
const newerVersion = "replaced by a newer version of the job"

// register persists a version of a job with all that it changes, and only then acts on it: stops the surplus
// allocations and starts the missing ones. An error means that nothing has changed.
func (a *Agent) register(now, was state.Job, p placement) error {
	index := a.nextIndex()
	now.ModifyIndex, now.CreateIndex = index, cmp.Or(now.CreateIndex, index)
	var changes []state.Change
	if was.Current {
		was.Current = false
		changes = append(changes, state.ChangeJob(&was))
	}
	return a.change(now, changes, p, &snapshot.Event{
		Topic: snapshot.TopicJob, Type: "JobRegistered", Key: now.ID, Namespace: now.Spec.Namespace,
	}, newerVersion)
}

// nextIndex is the index of the next event, or a little less if others are published meanwhile.
func (a *Agent) nextIndex() uint64 { return a.host.Feed.Index() + 1 }

// change persists a job with its allocations that change, and then stops the surplus ones, for a reason, and starts the
// missing ones. An error means that nothing has changed. e is nil if the job itself stays as it is.
func (a *Agent) change(now state.Job, changes []state.Change, p placement, e *snapshot.Event, reason string) error {
	changes = append(changes, state.ChangeJob(&now))
	made := make([]*alloc.Alloc, 0, len(p.fill))
	next := make(map[*alloc.Alloc]string)
	for _, v := range p.fill {
		a.succeed(&v, now.ID, p.stop)
		own := newAllocation(now.Spec, v, now.Version, a.nextIndex())
		l, err := alloc.New(a.host, own, now.Spec, nil)
		if err != nil {
			return errors.Join(err, alloc.Close(a.host.Context, made...))
		}
		if v.previous != nil {
			next[v.previous] = l.ID
		}
		made = append(made, l)
		changes = append(changes, state.ChangeAllocation(&own))
	}
	replaced := slices.DeleteFunc(slices.Collect(maps.Keys(next)), func(l *alloc.Alloc) bool {
		return slices.Contains(p.stop, l)
	})
	edits := replacements(p.stop, replaced, next, reason)
	for _, edit := range edits {
		changes = append(changes, edit.Change())
	}
	if err := a.host.Apply(changes...); err != nil {
		for _, edit := range edits {
			edit.Cancel()
		}
		return errors.Join(err, alloc.Close(a.host.Context, made...))
	}
	failpoint.At("agent.register.persisted")
	// Before anything names them: who hears of a job or an allocation can ask for it.
	a.remember(now)
	for _, l := range made {
		a.admit(l)
	}
	if e != nil {
		a.host.Feed.Publish(*e)
	}
	for _, edit := range edits {
		edit.Commit()
	}
	for _, l := range made {
		l.Publish("AllocationCreated")
		a.host.Work.Go(l.Begin)
	}
	for _, l := range replaced {
		l.Publish(snapshot.AllocationUpdated)
	}
	return nil
}

// replacements are the changes of allocations that are stopped for a reason, and of those that have ended, if others
// replace them: next has the IDs of these.
func replacements(stopped, ended []*alloc.Alloc, next map[*alloc.Alloc]string, reason string) []alloc.Edit {
	var edits []alloc.Edit
	for i, l := range slices.Concat(stopped, ended) {
		edits = append(edits, l.Edit(func(own *state.Allocation) {
			if i < len(stopped) {
				alloc.MarkStopped(own, reason)
			}
			if id := next[l]; id != "" {
				own.Next, own.Successor = id, nil
			}
		}))
	}
	return edits
}

// admit adds an allocation that does not run yet to the list. A reload switches its publishing from then on.
func (a *Agent) admit(l *alloc.Alloc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.Admit(a.config.Telemetry.PublishAllocationMetrics)
	a.allocs[l.ID] = l
}

// newAllocation is a new allocation of a job.
func newAllocation(j *job.Job, v vacancy, version, index uint64) state.Allocation {
	now, previous := time.Now(), ""
	if v.previous != nil {
		previous = v.previous.ID
	}
	return state.Allocation{
		ID: allocation.NewID(), Namespace: j.Namespace, JobID: j.ID, JobType: j.Type, JobVersion: version,
		Group: v.group.Name, Index: v.index, Digest: v.group.Digest, Desired: allocation.DesiredRun,
		CreateTime: now, ModifyTime: now, CreateIndex: index, ModifyIndex: index, Cores: v.cores, Ports: v.ports,
		Previous: previous, Reschedules: state.NewReschedules(v.reschedules),
	}
}

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
