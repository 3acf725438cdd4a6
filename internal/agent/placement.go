// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/node"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/procstats"
)

// vacancy is an allocation that a job lacks.
type vacancy struct {
	group *job.Group
	index int
	// cores are those reserved for tasks that request cores of their own, by task.
	cores map[string][]int
	// ports are those of the group, by label.
	ports map[string]int
	// previous is the allocation that this one replaces, nil for none, and reschedules are when those before it were
	// replaced.
	previous    *alloc.Alloc
	reschedules []hook.Instant
}

// replaces reports whether an allocation, of whatever version, is the one that the vacancy would replace.
func (v *vacancy) replaces(l *alloc.Alloc) bool {
	return l.Group == v.group.Name && l.Index == v.index && !l.Snapshot().ClientStatus.Ended()
}

// placement is what is done for a job: allocations that are stopped, vacancies that get a place, and those that do not.
type placement struct {
	stop     []*alloc.Alloc
	fill     []vacancy
	unplaced map[string]*snapshot.Unplaced
}

// reject says why a vacancy has no place. An allocation that it would replace goes on.
func (p *placement) reject(v vacancy, filtered []*job.Constraint, exhausted string) {
	u := p.unplaced[v.group.Name]
	if u == nil {
		u = &snapshot.Unplaced{}
		p.unplaced[v.group.Name] = u
	}
	u.Add(v.index, filtered, exhausted)
	p.stop = slices.DeleteFunc(p.stop, v.replaces)
}

// compare returns which live allocations a job has too many, and which it lacks. Those that are about to end are not
// live.
func (a *Agent) compare(j *job.Job, ending ...*alloc.Alloc) (surplus []*alloc.Alloc, missing []vacancy) {
	live := make(map[string]map[int]bool)
	for _, g := range j.Groups {
		live[g.Name] = make(map[int]bool)
	}
	for _, l := range a.list() {
		if l.JobID != j.ID || !l.Live() || slices.Contains(ending, l) {
			continue
		}
		g, digest := j.Group(l.Group), l.Persisted().Digest
		failed := l.Snapshot().ClientStatus.Ended() // and its other tasks are being ended
		if g == nil || failed || digest != g.Digest || digest == "" || l.Index >= g.Count || live[g.Name][l.Index] {
			surplus = append(surplus, l)
			continue
		}
		live[g.Name][l.Index] = true
	}
	for _, g := range j.Groups {
		for index := range g.Count {
			if !live[g.Name][index] {
				missing = append(missing, vacancy{group: g, index: index})
			}
		}
	}
	return surplus, missing
}

// place divides what a job lacks into the vacancies that this node can fill now, which get their ports and cores, and
// those that it cannot. An allocation of an earlier version goes on if nothing can replace it: it is not surplus
// then.
func (a *Agent) place(j *job.Job, surplus []*alloc.Alloc, missing []vacancy) placement {
	p := placement{stop: slices.Clone(surplus), unplaced: make(map[string]*snapshot.Unplaced)}
	names := a.host.NodeNow().Names()
	for _, v := range missing {
		if filtered := unmet(j, v.group, v.index+1, names); len(filtered) > 0 {
			p.reject(v, filtered, "")
		} else {
			p.fill = append(p.fill, v)
		}
	}
	for { // an allocation that goes on keeps its ports and cores, which others cannot have then
		rest, kept := a.reservations(j.ID, p.stop), len(p.stop)
		var fits []vacancy
		for _, v := range p.fill {
			if err := rest.take(&v); err != nil {
				p.reject(v, nil, err.Error())
			} else {
				fits = append(fits, v)
			}
		}
		if p.fill = fits; len(p.stop) == kept {
			return p
		}
	}
}

// unmet returns the constraints of a group that this node does not meet for so many of its allocations.
func unmet(j *job.Job, g *job.Group, count int, names map[string]string) (filtered []*job.Constraint) {
	all := slices.Concat(j.Constraints, g.Constraints)
	for _, t := range g.Tasks {
		all = append(all, t.Constraints...)
	}
	return slices.DeleteFunc(all, func(c *job.Constraint) bool { return node.Meets(c, count, names) })
}

// placementNotes say in sentences which constraints this node does not meet.
func (a *Agent) placementNotes(j *job.Job) []string {
	var notes []string
	names := a.host.NodeNow().Names()
	for _, g := range j.Groups {
		if g.Count == 0 {
			continue
		}
		for _, c := range unmet(j, g, g.Count, names) {
			notes = append(notes, fmt.Sprintf("placement failure: %s:%d: constraint %q filtered 1 node",
				c.Range.Filename, c.Range.Start.Line, c.String()))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// indexes are what is persisted of the allocations that wait for a place; nil for none.
func indexes(unplaced map[string]*snapshot.Unplaced) map[string][]int {
	if len(unplaced) == 0 {
		return nil
	}
	all := make(map[string][]int, len(unplaced))
	for name, u := range unplaced {
		all[name] = u.Indexes
	}
	return all
}

// setUnplaced sets which allocations of a job's current version wait for a place.
func (a *Agent) setUnplaced(id string, unplaced map[string]*snapshot.Unplaced) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.jobs[id]; r != nil {
		r.unplaced, r.current.Unplaced = nil, indexes(unplaced)
		if len(unplaced) > 0 {
			r.unplaced = unplaced
		}
	}
}

// waiting returns the jobs that have allocations without a place.
func (a *Agent) waiting() (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.jobs {
		if len(r.current.Unplaced) > 0 && r.current.Current && !r.current.Stopped {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// retryPlacement places allocations that wait for a place, if this node can run them now.
func (a *Agent) retryPlacement() {
	if len(a.waiting()) == 0 {
		return
	}
	a.host.Work.Go(func() {
		for !a.placeAll() && a.placing.CompareAndSwap(false, true) { // a disk that is full may have room later
			if !a.pause(replaceRetry) {
				return
			}
			a.placing.Store(false)
		}
	})
}

// placeAll places what waits for a place in all jobs, and returns false if that is to be tried again.
func (a *Agent) placeAll() (done bool) {
	a.registering.Lock()
	defer a.registering.Unlock()
	done = true
	for _, id := range a.waiting() {
		if err := a.placeWaiting(id); err != nil {
			a.log.Error("place allocations", "job", id, "error", err, "retry_in", replaceRetry)
			a.host.Counts.Fail("placement")
			done = false
		}
	}
	return done
}

// placeWaiting places those allocations of a job that wait for a place, as far as this node can run them;
// a.registering is held.
func (a *Agent) placeWaiting(id string) error {
	current := a.currentVersion(id)
	if current.Spec == nil {
		return nil
	}
	surplus, missing := a.compare(current.Spec)
	missing = slices.DeleteFunc(missing, func(v vacancy) bool {
		return !slices.Contains(current.Unplaced[v.group.Name], v.index)
	})
	surplus = slices.DeleteFunc(surplus, func(l *alloc.Alloc) bool {
		return !slices.ContainsFunc(missing, func(v vacancy) bool { return v.replaces(l) })
	})
	p := a.place(current.Spec, surplus, missing)
	before := current.Unplaced
	current.Unplaced = indexes(p.unplaced)
	if len(p.fill) > 0 || !maps.EqualFunc(before, current.Unplaced, slices.Equal) {
		if err := a.change(current, nil, p, nil, newerVersion); err != nil {
			return err
		}
	}
	a.setUnplaced(id, p.unplaced)
	return nil
}

// reservations are the cores and the ports of this node that allocations have.
type reservations struct {
	// all are the cores of the node; cores are the taken ones.
	all   []int
	cores map[int]bool
	// ports has the owner of each taken port.
	ports map[int]string
}

// reservations returns what is taken. Allocations of the job itself that are being stopped, or are among stop, take
// nothing: their successors get the same.
func (a *Agent) reservations(jobID string, stop []*alloc.Alloc) *reservations {
	r := &reservations{all: a.host.Node.Resources.Cores, cores: make(map[int]bool), ports: make(map[int]string)}
	for _, l := range a.list() {
		if l.Dead() || l.JobID == jobID && (l.StopReason() != "" || slices.Contains(stop, l)) {
			continue
		}
		own := l.Persisted()
		for _, cores := range own.Cores {
			for _, core := range cores {
				r.cores[core] = true
			}
		}
		for _, port := range own.Ports {
			r.ports[port] = "allocation " + l.ID
		}
	}
	return r
}

// take reserves the ports of a vacancy, and the cores that its tasks request: all or none.
func (r *reservations) take(v *vacancy) error {
	rest := &reservations{all: r.all, cores: maps.Clone(r.cores), ports: maps.Clone(r.ports)}
	v.cores, v.ports = make(map[string][]int), make(map[string]int)
	err := rest.takeCores(v)
	if err == nil {
		err = rest.takePorts(v)
	}
	if err != nil {
		v.cores, v.ports = nil, nil
		return err
	}
	*r = *rest
	return nil
}

func (r *reservations) takeCores(v *vacancy) error {
	for _, t := range v.group.Tasks {
		for _, core := range r.all {
			if len(v.cores[t.Name]) < t.Resources.Cores && !r.cores[core] {
				v.cores[t.Name], r.cores[core] = append(v.cores[t.Name], core), true
			}
		}
		if free := len(v.cores[t.Name]); free < t.Resources.Cores {
			return fmt.Errorf("task %s of group %s requests %s; free: %d",
				t.Name, v.group.Name, procstats.Counted(t.Resources.Cores, "core", "cores"), free)
		}
	}
	return nil
}

func (r *reservations) takePorts(v *vacancy) error {
	for _, p := range v.group.Ports {
		port := p.Value
		if owner, used := r.ports[port]; port != 0 && used {
			return fmt.Errorf("port %d (%s) of group %s is used by %s", port, p.Label, v.group.Name, owner)
		}
		if port == 0 {
			if port = freePort(r.ports); port == 0 {
				return fmt.Errorf("port %s of group %s: all ports from %d to %d are used",
					p.Label, v.group.Name, alloc.FirstPort, alloc.LastPort)
			}
		}
		v.ports[p.Label], r.ports[port] = port, "another allocation of the job"
	}
	return nil
}

// freePort returns a port that no allocation has and that no process listens on; 0 if all are taken.
func freePort(taken map[int]string) int {
	for _, offset := range rand.Perm(alloc.LastPort - alloc.FirstPort + 1) {
		port := alloc.FirstPort + offset
		if _, used := taken[port]; used {
			continue
		}
		if listener, err := net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
	return 0
}
