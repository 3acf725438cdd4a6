// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

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

	"github.com/hashicorp/hcl/v2"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/allocdir"
	"github.com/tachograph/tacho/internal/agent/feed"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/places"
	"github.com/tachograph/tacho/internal/agent/registry"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/failpoint"
)

// registered is a job with its versions: the current one, and those that allocations still refer to.
type registered struct {
	current  state.Job
	versions map[uint64]*job.Job // nil where a version cannot be read
	// unplaced are the allocations of the current version that wait for a place.
	unplaced map[string]*snapshot.Unplaced
}

// remember adds a version of a job.
func (a *Agent) remember(v state.Job, j *job.Job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.jobs[v.ID]
	if r == nil {
		r = &registered{versions: make(map[uint64]*job.Job)}
		a.jobs[v.ID] = r
	}
	r.versions[v.Version] = j
	// The current version of a job that was purged is none.
	if v.Current || !r.current.Current && v.Version >= r.current.Version {
		r.current = v
	}
}

// version returns a version of a job; nil where there is none that can be read.
func (a *Agent) version(id string, version uint64) *job.Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.jobs[id]; r != nil {
		return r.versions[version]
	}
	return nil
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
		if ctx.Err() != nil { // which says nothing of the job
			return nil, err
		}
		return nil, refused{err}
	}
	file.Job.Notes = append(file.Job.Notes, a.placementNotes(file.Job)...)
	return file.Job, nil
}

// maxFaulty is how many tasks are named whose mistakes are found when a job is checked.
const maxFaulty = 20

// refused marks what is wrong with a job, and not with the agent.
type refused struct{ error }

// Is says that it is an invalid request.
func (refused) Is(target error) bool { return target == driver.ErrInvalid }

// Unwrap returns what is wrong.
func (r refused) Unwrap() error { return r.error }

// check refuses a job that this machine cannot run. The error names all that is in the way.
func (a *Agent) check(ctx context.Context, file *job.File) error {
	j := file.Job
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, a.node.Datacenter)
		return err == nil && ok
	}
	var errs []error
	if !slices.ContainsFunc(j.Datacenters, matches) {
		err := fmt.Errorf("job %s is for %q, this agent is in %q", j.ID, j.Datacenters, a.node.Datacenter)
		errs = append(errs, j.Places.Fault("datacenters", err))
	}
	if j.Region != a.node.Region {
		err := fmt.Errorf("job %s is for %q, this agent is in %q", j.ID, j.Region, a.node.Region)
		errs = append(errs, j.Places.Fault("region", err))
	}
	for _, g := range j.Groups {
		for _, t := range g.Tasks {
			err := places.Each(a.checkTask(ctx, a.probe(file, g, t)), func(cause error) error {
				if _, hasPlace := errors.AsType[*hcl.Diagnostic](cause); hasPlace {
					return cause
				}
				return fmt.Errorf("task %s of group %s: %w", t.Name, g.Name, cause)
			})
			if err == nil {
				continue
			}
			if errs = append(errs, err); len(errs) == maxFaulty {
				return places.Join(append(errs, errors.New("other tasks were not checked"))...)
			}
		}
	}
	return places.Join(errs...)
}

// probe is a start of a task for an allocation that there is not.
func (a *Agent) probe(file *job.File, g *job.Group, t *job.Task) *start {
	const nobody = "00000000-0000-4000-8000-000000000000"
	return &start{
		job: file.Job, group: g, task: t, expressions: file.Expressions(t), allocID: nobody,
		allocName: file.Job.ID + "." + g.Name + "[0]", node: a.node, dir: allocdir.In(a.allocDir(), nobody), ports: probePorts(g),
	}
}

// probePorts are ports that a group might have.
func probePorts(g *job.Group) map[string]int {
	ports := make(map[string]int, len(g.Ports))
	for _, p := range g.Ports {
		ports[p.Label] = cmp.Or(p.Value, firstPort)
	}
	return ports
}

// checkTask does what a start would do.
func (a *Agent) checkTask(ctx context.Context, s *start) error {
	t := s.task
	var errs []error
	other := registry.Check(t.Driver)
	errs = append(errs, t.Places.Fault("driver", other))
	_, unknown := ownerOf(t.User)
	errs = append(errs, t.Places.Fault("user", unknown))
	if wanted, there := t.Resources.Cores, len(a.node.Resources.Cores); wanted > there {
		err := fmt.Errorf("requests %d cores; this machine has %d", wanted, there)
		errs = append(errs, t.Places.Fault("resources.cores", err))
	}
	env, err := s.environment()
	if err != nil {
		return places.Join(append(errs, err)...) // the rest refers to it
	}
	errs = append(errs, s.checkTemplates(ctx, env))
	if other == nil {
		var config driver.TaskConfig
		err := s.configure(a.driver, &config, env)
		if err == nil && unknown == nil {
			err = a.driver.CheckTask(t, &config)
		}
		errs = append(errs, err)
	}
	return places.Join(errs...)
}

// RunJob registers a job and starts its allocations; those that this node cannot run wait until it can. Allocations of an earlier
// version go on where their group means the same, and are stopped where it does not. changed is false where nothing had to be done.
// check, if there is one, may reject that by the index of the job's last change, which is 0 of a job that is not registered.
func (a *Agent) RunJob(ctx context.Context, source job.Source, check func(index uint64) error) (status *snapshot.Job, changed bool, err error) {
	return a.runJob(ctx, source, func(was state.Job) error {
		switch {
		case check == nil:
			return nil
		case !was.Current:
			return check(0)
		}
		return check(was.ModifyIndex)
	})
}

// runJob is RunJob, unless the job that is registered is not one to be changed.
func (a *Agent) runJob(ctx context.Context, source job.Source, check func(was state.Job) error) (status *snapshot.Job, changed bool, err error) {
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
	if err := check(was); err != nil {
		return nil, false, err
	}
	if spec := a.version(was.ID, was.Version); spec != nil && was.Current && !was.Stopped && spec.Namespace != j.Namespace {
		return nil, false, refused{fmt.Errorf("job %s: registered in namespace %s; jobs of all namespaces share their IDs here", j.ID, spec.Namespace)}
	}
	surplus, missing := a.compare(j)
	stop, fill, unplaced := a.place(j, surplus, missing)
	if known && was.Current && !was.Stopped && len(stop)+len(fill) == 0 && a.same(was, j) {
		status, err = a.job(j.ID)
		return status, false, err
	}
	now := state.Job{
		ID: j.ID, Source: source, SubmitTime: time.Now(), Current: true, Spec: j, Digests: digests(j), Unplaced: indexes(unplaced),
	}
	if known {
		now.Version = was.Version + 1
	}
	if was.Current { // one that was purged is another job of the name
		now.CreateIndex = was.CreateIndex
	}
	if err := a.register(now, was, stop, fill); err != nil {
		return nil, false, err
	}
	a.setUnplaced(j.ID, unplaced)
	a.retryPlacement() // something may have become free before anybody knew that the job waits
	status, err = a.job(j.ID)
	return status, true, err
}

// same reports whether a job comes to what is registered, whatever it was read from. A job file with other notes is another one; a job in
// JSON has lost what they are about.
func (a *Agent) same(was state.Job, j *job.Job) bool {
	spec := a.version(was.ID, was.Version)
	return spec != nil && spec.Same(j) && (j.Source.IsJSON() || j.Source.Text == was.Source.Text || slices.Equal(spec.Notes, j.Notes))
}

// PlanJob says what RunJob would do, and changes nothing.
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
	replaced := make(map[string]map[int]bool)
	for _, v := range missing {
		if replaced[v.group.Name] == nil {
			replaced[v.group.Name] = make(map[int]bool)
		}
		replaced[v.group.Name][v.index] = true
	}
	for _, g := range j.Groups {
		plan.Groups[g.Name] = snapshot.Changes{Place: len(replaced[g.Name]), Ignore: g.Count - len(replaced[g.Name])}
	}
	for _, l := range surplus {
		c := plan.Groups[l.group.Name]
		if replaced[l.group.Name][l.persisted.Index] {
			c.Place, c.Replace = c.Place-1, c.Replace+1
			delete(replaced[l.group.Name], l.persisted.Index)
		} else {
			c.Stop++
		}
		plan.Groups[l.group.Name] = c
	}
	_, _, plan.Unplaced = a.place(j, surplus, missing)
	return plan, nil
}

// digests are those of a job's groups, by name.
func digests(j *job.Job) map[string]string {
	all := make(map[string]string, len(j.Groups))
	for _, g := range j.Groups {
		all[g.Name] = g.Digest
	}
	return all
}

// register persists a version of a job with all that it changes, and only then acts on it: stops the surplus allocations and
// starts the missing ones. An error means that nothing has changed.
func (a *Agent) register(now, was state.Job, surplus []*alloc, missing []vacancy) error {
	index := a.nextIndex()
	now.ModifyIndex, now.CreateIndex = index, cmp.Or(now.CreateIndex, index)
	var changes []state.Change
	if was.Current {
		was.Current = false
		changes = append(changes, state.ChangeJob(&was))
	}
	registered := &feed.Event{Topic: feed.TopicJob, Type: "JobRegistered", Key: now.ID, Namespace: now.Spec.Namespace}
	return a.change(now, changes, surplus, missing, registered, newerVersion)
}

// nextIndex is that of the next event, or a little less if others are published meanwhile.
func (a *Agent) nextIndex() uint64 { return a.feed.Index() + 1 }

// newerVersion is why an allocation ends that is none of the job's present version.
const newerVersion = "replaced by a newer version of the job"

// change persists a job with its allocations that change, and then stops the surplus ones, for a reason, and starts the missing ones.
// An error means that nothing has changed. e is nil if the job itself stays as it is.
func (a *Agent) change(now state.Job, changes []state.Change, surplus []*alloc, missing []vacancy, e *feed.Event, reason string) error {
	changes = append(changes, state.ChangeJob(&now))
	made := make([]*alloc, 0, len(missing))
	next := make(map[*alloc]string)
	for _, v := range missing {
		a.succeed(&v, now.ID, surplus)
		l, err := a.newAlloc(newAllocation(now.Spec, v, now.Version, a.nextIndex()), now.Spec, nil)
		if err != nil {
			return errors.Join(err, closeAllocs(a.ctx, made))
		}
		if v.previous != nil {
			next[v.previous] = l.id
		}
		made = append(made, l)
		changes = append(changes, state.ChangeAllocation(&l.persisted))
	}
	others := slices.DeleteFunc(slices.Collect(maps.Keys(next)), func(l *alloc) bool { return slices.Contains(surplus, l) })
	for _, l := range slices.Concat(surplus, others) {
		l.saving.Lock()
		defer l.saving.Unlock()
		changes = append(changes, l.edited(func(own *state.Allocation) {
			if !slices.Contains(others, l) {
				markStopped(own, reason)
			}
			if id := next[l]; id != "" {
				own.Next, own.Successor = id, nil
			}
		}))
	}
	if err := a.apply(changes...); err != nil {
		return errors.Join(err, closeAllocs(a.ctx, made))
	}
	failpoint.At("agent.register.persisted")
	// Before anything names them: whoever is told of a job or an allocation can ask for it.
	a.remember(now, now.Spec)
	for _, l := range made {
		a.admit(l)
	}
	if e != nil {
		a.feed.Publish(*e)
	}
	for l, id := range next {
		l.setNext(id)
	}
	for _, l := range surplus {
		l.setStopping(reason)
	}
	for _, l := range made {
		a.begin(l)
	}
	for _, l := range others {
		l.publish(feed.Event{Type: "AllocationUpdated"})
	}
	return nil
}

// begin starts an allocation that is admitted.
func (a *Agent) begin(l *alloc) {
	l.publish(feed.Event{Type: "AllocationCreated"})
	a.work.Go(l.begin)
}

// newAllocation is a new allocation of a job.
func newAllocation(j *job.Job, v vacancy, version, index uint64) state.Allocation {
	now, previous := time.Now(), ""
	if v.previous != nil {
		previous = v.previous.id
	}
	return state.Allocation{
		Previous: previous, Reschedules: v.reschedules, ID: allocation.NewID(), Namespace: j.Namespace, JobID: j.ID, JobType: j.Type, JobVersion: version,
		Group: v.group.Name, Index: v.index, Digest: v.group.Digest, Desired: allocation.DesiredRun, CreateTime: now,
		ModifyTime: now, Cores: v.cores, Ports: v.ports, CreateIndex: index, ModifyIndex: index,
	}
}

// resume stops what is left of jobs that were stopped before the agent was killed, and tries to place what waits for a place.
func (a *Agent) resume() {
	a.registering.Lock()
	defer a.registering.Unlock()
	a.mu.Lock()
	var stopped []string
	for id, r := range a.jobs {
		if r.current.Stopped || !r.current.Current {
			stopped = append(stopped, id)
		}
	}
	a.mu.Unlock()
	for _, id := range stopped {
		a.stopAllocs(id)
	}
	a.retryPlacement() // the node may be another than it was
}

// vacancy is an allocation that a job lacks.
type vacancy struct {
	group *job.Group
	index int
	// cores are those reserved for tasks that want some for themselves, by task.
	cores map[string][]int
	// ports are those of the group, by label.
	ports map[string]int
	// previous is the allocation that this one replaces, nil if there is none, and reschedules are when those before it were replaced.
	previous    *alloc
	reschedules []time.Time
}

// compare says which live allocations a job has too many, and which it lacks. Those that are about to end are not live.
func (a *Agent) compare(j *job.Job, ending ...*alloc) (surplus []*alloc, missing []vacancy) {
	live := make(map[string]map[int]*alloc)
	for _, l := range a.list() {
		if l.job.ID != j.ID || l.stopReason() != "" || l.dead() || slices.Contains(ending, l) {
			continue
		}
		g := j.Group(l.group.Name)
		failed := l.snapshot().ClientStatus.Ended() // and its other tasks are being ended
		index := l.persisted.Index
		if g == nil || failed || l.persisted.Digest != g.Digest || g.Digest == "" || index >= g.Count || live[g.Name][index] != nil {
			surplus = append(surplus, l)
			continue
		}
		if live[g.Name] == nil {
			live[g.Name] = make(map[int]*alloc)
		}
		live[g.Name][index] = l
	}
	for _, g := range j.Groups {
		for index := range g.Count {
			if live[g.Name][index] == nil {
				missing = append(missing, vacancy{group: g, index: index})
			}
		}
	}
	return surplus, missing
}

// admit puts an allocation that does not run yet into the list. Publishing may have been switched since it was made.
func (a *Agent) admit(l *alloc) {
	for _, t := range l.tasks {
		t.prepare(nil)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allocs[l.id] = l
	for _, t := range l.tasks {
		_ = t.stats.SetPublish(a.ctx, a.config.Telemetry.PublishAllocationMetrics) // the task is not running: no error
	}
}
