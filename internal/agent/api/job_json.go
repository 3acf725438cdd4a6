// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"maps"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
)

// jobJSON is a job in Nomad's shape, with all that Nomad fills in: clients dereference it.
type jobJSON struct {
	*job.Job
	Groups []groupJSON `json:"TaskGroups"`

	AllAtOnce, Dispatched, Stop, Stable       bool
	ParentID, NomadTokenID                    string
	ConsulNamespace, VaultNamespace, NodePool string
	DispatchIdempotencyToken                  string
	Update                                    updateJSON
	Status, StatusDescription                 string
	SubmitTime                                int64
	Version                                   uint64
	CreateIndex, ModifyIndex, JobModifyIndex  uint64
	// Unplaced have by group the reasons why allocations wait for a place on this node.
	Unplaced map[string]apijson.Unplaced `json:"TachoUnplaced,omitempty"`
}

// newJobJSON returns a job; for untrusted callers its names, numbers and states only.
func newJobJSON(j *snapshot.Job, trusted bool) *jobJSON {
	shown := j.Job
	if !trusted {
		shown = withoutSecrets(j.Job)
	}
	unplaced := make(map[string]apijson.Unplaced, len(j.Unplaced))
	for name, u := range j.Unplaced {
		of := apijson.Unplaced{Allocations: len(u.Indexes)}
		if trusted {
			of.Reasons = u.Reasons()
		}
		unplaced[name] = of
	}
	submitted := int64(0)
	if !j.SubmitTime.IsZero() {
		submitted = j.SubmitTime.UnixNano()
	}
	return &jobJSON{
		Job: shown, Groups: newGroupsJSON(shown), Status: j.Status, Stop: j.Stopped, Version: j.Version,
		NodePool: "default", SubmitTime: submitted, CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
		JobModifyIndex: j.ModifyIndex, Unplaced: unplaced,
	}
}

// updateJSON has no value but zero: allocations of a new version are started at once.
type updateJSON struct {
	Stagger, MaxParallel                              int
	HealthCheck                                       string
	MinHealthyTime, HealthyDeadline, ProgressDeadline int
	AutoRevert, AutoPromote                           bool
	Canary                                            int
}

type groupJSON struct {
	*job.Group
	Tasks         []taskJSON
	Restart       restartJSON    `json:"RestartPolicy"`
	Reschedule    job.Reschedule `json:"ReschedulePolicy"`
	EphemeralDisk diskJSON
	Update        updateJSON
	Networks      []apijson.Network `json:",omitempty"`

	PreventRescheduleOnLost bool
}

type logsJSON struct {
	Disabled                bool
	MaxFiles, MaxFileSizeMB int
}

type diskJSON struct {
	Sticky, Migrate bool
	SizeMB          int
}

type restartJSON struct {
	job.Restart
	RenderTemplates bool
}

type taskJSON struct {
	*job.Task
	Restart       restartJSON `json:"RestartPolicy"`
	Resources     apijson.Resources
	LogConfig     logsJSON
	Meta          map[string]string `json:",omitempty"`
	KillSignal    string
	Leader        bool
	ShutdownDelay int
}

func newGroupsJSON(j *job.Job) []groupJSON {
	groups := make([]groupJSON, 0, len(j.Groups))
	for _, g := range j.Groups {
		shown := groupJSON{
			Group: g, Restart: restartJSON{Restart: g.Restart}, Reschedule: g.Reschedule,
			EphemeralDisk: diskJSON{SizeMB: g.DiskMB}, Networks: networks(g),
		}
		for _, t := range g.Tasks {
			shown.Tasks = append(shown.Tasks, newTaskJSON(j, g, t))
		}
		groups = append(groups, shown)
	}
	return groups
}

// newTaskJSON returns what the job file says of a task: a client that sends the job back sets no more than that.
// Without a logs block the bounds are 0, which means the driver's.
func newTaskJSON(j *job.Job, g *job.Group, t *job.Task) taskJSON {
	shown := taskJSON{
		Task: t, Restart: restartJSON{Restart: t.Restart}, KillSignal: t.KillSignal, Leader: t.Leader,
		Resources: newResources(t.Resources), Meta: maps.Clone(t.Meta),
	}
	maps.DeleteFunc(shown.Meta, func(name, value string) bool {
		inherited, known := g.Meta[name]
		if !known {
			inherited, known = j.Meta[name]
		}
		return known && inherited == value
	})
	if t.Logs != nil {
		shown.LogConfig = logsJSON(*t.Logs)
	}
	return shown
}

func networks(g *job.Group) []apijson.Network {
	if len(g.Ports) == 0 {
		return nil
	}
	n := apijson.Network{Mode: "host"}
	for _, p := range g.Ports {
		port := apijson.Port{Label: p.Label, Value: p.Value, To: p.To, HostNetwork: "default"}
		if p.Value > 0 {
			n.ReservedPorts = append(n.ReservedPorts, port)
		} else {
			n.DynamicPorts = append(n.DynamicPorts, port)
		}
	}
	return []apijson.Network{n}
}

// withoutSecrets returns a copy with the fields for untrusted callers. New fields are left out until they are listed
// here.
func withoutSecrets(j *job.Job) *job.Job {
	c := &job.Job{
		ID: j.ID, Name: j.Name, Namespace: j.Namespace, Region: j.Region, Type: j.Type, Priority: j.Priority,
		Datacenters: j.Datacenters,
	}
	for _, g := range j.Groups {
		group := &job.Group{Name: g.Name, Count: g.Count, Restart: g.Restart, Reschedule: g.Reschedule}
		for _, t := range g.Tasks {
			group.Tasks = append(group.Tasks, &job.Task{
				Name: t.Name, Driver: t.Driver, Resources: t.Resources, Restart: t.Restart, KillTimeout: t.KillTimeout,
				Leader: t.Leader, Lifecycle: t.Lifecycle,
			})
		}
		c.Groups = append(c.Groups, group)
	}
	return c
}

func newJobStub(j *snapshot.Job, allocations []*allocation.Allocation) apijson.JobStub {
	return apijson.JobStub{
		ID: j.Job.ID, Name: j.Job.Name, Namespace: j.Job.Namespace, Datacenters: j.Job.Datacenters, NodePool: "default",
		Type: j.Job.Type, Priority: j.Job.Priority, Stop: j.Stopped, Status: j.Status,
		JobSummary: newSummary(j, allocations), CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
		JobModifyIndex: j.ModifyIndex, SubmitTime: j.SubmitTime.UnixNano(), Version: j.Version,
	}
}

func newSummary(j *snapshot.Job, allocations []*allocation.Allocation) apijson.JobSummary {
	groups := map[string]apijson.GroupSummary{}
	for _, g := range j.Job.Groups {
		groups[g.Name] = apijson.GroupSummary{}
	}
	for name, u := range j.Unplaced {
		groups[name] = apijson.GroupSummary{Queued: len(u.Indexes)}
	}
	for _, a := range allocations {
		if a.JobID != j.Job.ID || !ofThis(j, a) {
			continue
		}
		g := groups[a.Group]
		switch a.ClientStatus {
		case allocation.Pending:
			g.Starting++
		case allocation.Running:
			g.Running++
		case allocation.Complete:
			g.Complete++
		case allocation.Failed:
			g.Failed++
		}
		groups[a.Group] = g
	}
	return apijson.JobSummary{
		JobID: j.Job.ID, Namespace: j.Job.Namespace, Summary: groups,
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
	}
}
