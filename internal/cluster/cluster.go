// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster reads what the tasks of a Nomad cluster request, and what they have used: from Nomad's HTTP API, to
// which the driver reports the ends of tasks, and from a Prometheus server that scrapes the driver.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/procstats"
)

// Task is a task of a group of a job.
type Task struct {
	Namespace, Job, Group, Name, Driver string
	// Version is that of the job.
	Version uint64
	// Count is how many allocations the group shall have; of system jobs, how many have not ended.
	Count int
	// Requested is for one allocation, CPU of reserved cores in MHz too.
	Requested apijson.Resources
	// CoreMHz is what a core counts for; 0 if that is not known.
	CoreMHz float64
	// Runs are what is known of its starts in all allocations: the ID of each is that of the allocation.
	Runs []*record.Record
	// Notes say what is not known.
	Notes []string

	jobName   string // Prometheus has this one and not the ID
	own       bool   // whether its driver is this one, whatever it is called in the cluster
	everyNode bool   // whether it is of a system job, which has no count
	// allocations with what Nomad still knows of them.
	allocations []*apijson.Allocation
}

// ownDriver is the usual name of this driver: that of its file.
const ownDriver = "tacho"

// Path names the task.
func (t *Task) Path() string { return t.Job + "/" + t.Group + "/" + t.Name }

// Cluster is a Nomad cluster with its address.
type Cluster struct {
	*client.Client
	namespace string
	hasToken  bool
}

// pageSize is how many allocations are asked for at once: one has about 20 KB.
const pageSize = 500

// Tasks returns the tasks of all jobs, or of one, with their runs since a time; watched are records of watches. A token
// with the capability read-job suffices.
func (c *Cluster) Tasks(ctx context.Context, job string, since time.Time, watched []*record.Record) ([]*Task, error) {
	allocations, err := c.allocations(ctx, job, since)
	if err != nil {
		return nil, c.explain(err)
	}
	jobs := map[jobID]map[string]*Task{} // by group and name
	if job != "" && c.namespace != everywhere {
		jobs[jobID{c.namespace, parentOf(job)}] = nil
	}
	for _, a := range allocations {
		jobs[jobOf(a)] = nil
	}
	var all []*Task
	for id := range jobs {
		if jobs[id], err = c.requested(ctx, id); err != nil {
			return nil, c.explain(err)
		}
		all = slices.AppendSeq(all, maps.Values(jobs[id]))
	}
	switch {
	case len(all) == 0 && job != "":
		return nil, fmt.Errorf("nomad at %s: job %q is unknown in namespace %q (NOMAD_NAMESPACE chooses another, '*' all)",
			c.Address(), job, c.namespace)
	case len(all) == 0:
		return nil, fmt.Errorf("nomad at %s: no job in namespace %q has had allocations since %s (NOMAD_NAMESPACE chooses "+
			"another namespace, '*' all; --days more time)", c.Address(), c.namespace, since.Format(time.DateOnly))
	}
	for _, a := range allocations {
		for name := range a.TaskStates {
			if t := jobs[jobOf(a)][a.TaskGroup+"/"+name]; t != nil {
				if t.allocations = append(t.allocations, a); t.everyNode && !a.Ended() {
					t.Count++
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *Task) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Path(), b.Path()))
	})
	for _, t := range all {
		t.addRuns(since, watched)
		if err := c.addRunning(ctx, t); err != nil {
			return nil, c.explain(err)
		}
	}
	return all, nil
}

// allocations returns those that run, or have ended since a time, of all jobs or of one.
func (c *Cluster) allocations(ctx context.Context, job string, since time.Time) (all []*apijson.Allocation, err error) {
	filter := ""
	if job != "" {
		filter = fmt.Sprintf("JobID == %#q or JobID matches %#q", job, "^"+regexp.QuoteMeta(job)+"/(periodic|dispatch)-")
	}
	for next := ""; ; {
		page, err := client.Get[[]*apijson.Allocation](ctx, c.Client, "/v1/allocations", "resources", "true",
			"per_page", strconv.Itoa(pageSize), "next_token", next, "filter", filter)
		if err != nil {
			return nil, err
		}
		for _, a := range page.Value {
			if !a.Ended() || !time.Unix(0, a.ModifyTime).Before(since) {
				all = append(all, a)
			}
		}
		if next = page.Next; next == "" {
			return all, nil
		}
	}
}

// everywhere is the namespace that stands for all.
const everywhere = "*"

type jobID struct{ namespace, id string }

func jobOf(a *apijson.Allocation) jobID { return jobID{a.Namespace, parentOf(a.JobID)} }

// parentOf returns the job that launched a periodic or dispatched job; others are their own.
func parentOf(id string) string {
	for _, launched := range [...]string{"/periodic-", "/dispatch-"} {
		// The time in seconds follows.
		if at := strings.LastIndex(id, launched); at > 0 && id[at+len(launched):] >= "0" && id[at+len(launched):] < ":" {
			id = id[:at]
		}
	}
	return id
}

// requested returns the tasks of a job by group and name; none of one that was purged.
func (c *Cluster) requested(ctx context.Context, id jobID) (map[string]*Task, error) {
	job, err := client.Get[client.Job](ctx, c.Client, client.Path("v1", "job", id.id), "namespace", id.namespace)
	if client.IsNotFound(err) {
		return nil, nil
	}
	tasks := map[string]*Task{}
	everyNode := strings.HasPrefix(job.Value.Type, "sys") // system and sysbatch
	for _, g := range job.Value.TaskGroups {
		if everyNode {
			g.Count = 0
		}
		for _, t := range g.Tasks {
			tasks[g.Name+"/"+t.Name] = &Task{
				Namespace: id.namespace, Job: id.id, Group: g.Name, Name: t.Name, Driver: t.Driver,
				Version: job.Value.Version, Count: g.Count, Requested: t.Resources,
				jobName: job.Value.Name, everyNode: everyNode,
			}
		}
	}
	return tasks, err
}

// addRuns adds the ends that Nomad's events of the task have, and what watches have seen of it.
func (t *Task) addRuns(since time.Time, watched []*record.Record) {
	slices.SortFunc(t.allocations, func(a, b *apijson.Allocation) int { return int(a.ModifyTime - b.ModifyTime) })
	ends, forgotten, foreign := 0, 0, ""
	t.own = t.Driver == ownDriver
	for _, a := range t.allocations {
		if cpu := a.AllocatedResources.Tasks[t.Name].Cpu.CpuShares; t.Requested.Cores > 0 && cpu > 0 {
			t.Requested.CPU = cpu
		}
		state, known, seen := a.TaskStates[t.Name], 0, map[time.Time]int{} // places of runs by their start
		if state == nil || state.StartedAt.IsZero() {
			continue
		}
		for _, e := range state.Events {
			if mhz, err := strconv.ParseFloat(e.Details[record.CoreMHzAnnotation], 64); err == nil {
				t.CoreMHz, t.own = mhz, true
			}
			text := e.Details[record.BasisAnnotation]
			if text == "" {
				continue
			}
			r, err := record.Decode([]byte(text))
			switch {
			case err != nil:
				foreign = err.Error()
				continue
			case r.State != record.Running:
				known++
			}
			r.ID = a.ID
			if at, again := seen[r.StartedAt]; again { // an event can come twice, and running tasks are reported too
				t.Runs[at] = r
			} else if !time.Unix(0, e.Time).Before(since) {
				seen[r.StartedAt] = len(t.Runs)
				t.Runs = append(t.Runs, r)
			}
		}
		ended := state.Restarts
		if state.State == "dead" {
			ended++
		}
		ends += ended
		forgotten += max(0, ended-known)
		if known == 0 && !t.own {
			t.Runs = append(t.Runs, watchesOf(watched, a, t.Name)...)
		}
	}
	t.note(ends, forgotten, foreign)
}

// note says what is missing among the runs.
func (t *Task) note(ends, forgotten int, foreign string) {
	add := func(format string, args ...any) { t.Notes = append(t.Notes, fmt.Sprintf(format, args...)) }
	switch {
	case !t.own && len(t.Runs) == 0:
		add("The driver %s does not report what it uses: tacho watch --alloc records it on its node.", t.Driver)
	case t.own && forgotten > 0:
		add("Nomad no longer has the records of %d of %s; --prometheus may have more.", forgotten,
			procstats.Counted(ends, "end", "ends"))
	}
	if foreign != "" {
		add("The record of an end cannot be read: %s.", foreign)
	}
}

// watchesOf returns the records of tacho watch --alloc of a task.
func watchesOf(watched []*record.Record, a *apijson.Allocation, task string) (of []*record.Record) {
	for _, r := range watched {
		if len(r.Command) != 3 || r.Command[0] != "watch" || r.Command[1] != "alloc" {
			continue
		}
		id, name, _ := strings.Cut(r.Command[2], "/")
		if strings.HasPrefix(a.ID, id) && (name == task || name == "" && len(a.TaskStates) == 1) {
			of = append(of, r)
		}
	}
	return of
}
