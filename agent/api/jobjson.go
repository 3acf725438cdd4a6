// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"github.com/tachograph/tacho/agent/allocation"
	"github.com/tachograph/tacho/agent/job"
	"github.com/tachograph/tacho/agent/shape"
	"github.com/tachograph/tacho/agent/snapshot"
)

// jobJSON is a job in Nomad's shape.
type jobJSON struct {
	*job.Job
	Status            string
	StatusDescription string
	Stop              bool
	Stable            bool
	Version           uint64
	NodePool          string
	SubmitTime        int64
	CreateIndex       uint64
	ModifyIndex       uint64
	JobModifyIndex    uint64
}

// newJobJSON returns a job; without trust its names, numbers and states only.
func newJobJSON(j *snapshot.Job, trusted bool) *jobJSON {
	shown := j.Job
	if !trusted {
		shown = withoutSecrets(j.Job)
	}
	return &jobJSON{
		Job: shown, Status: j.Status, Stop: j.Stopped, Version: j.Version, NodePool: "default",
		SubmitTime: j.SubmitTime.UnixNano(), CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
		JobModifyIndex: j.ModifyIndex,
	}
}

// withoutSecrets returns a copy with the fields that everybody may see. New fields are left out until they stand here.
func withoutSecrets(j *job.Job) *job.Job {
	c := &job.Job{
		ID: j.ID, Name: j.Name, Namespace: j.Namespace, Region: j.Region, Type: j.Type, Priority: j.Priority,
		Datacenters: j.Datacenters,
	}
	for _, g := range j.Groups {
		group := &job.Group{Name: g.Name, Count: g.Count, Restart: g.Restart}
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

func newJobStub(j *snapshot.Job, allocations []*allocation.Allocation) shape.JobStub {
	return shape.JobStub{
		ID: j.Job.ID, Name: j.Job.Name, Namespace: j.Job.Namespace, Datacenters: j.Job.Datacenters, NodePool: "default",
		Type: j.Job.Type, Priority: j.Job.Priority, Stop: j.Stopped, Status: j.Status,
		JobSummary: newSummary(j, allocations), CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
		JobModifyIndex: j.ModifyIndex, SubmitTime: j.SubmitTime.UnixNano(), Version: j.Version,
	}
}

func newSummary(j *snapshot.Job, allocations []*allocation.Allocation) shape.JobSummary {
	groups := map[string]shape.GroupSummary{}
	for _, g := range j.Job.Groups {
		groups[g.Name] = shape.GroupSummary{}
	}
	for _, a := range allocations {
		if a.JobID != j.Job.ID {
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
	return shape.JobSummary{
		JobID: j.Job.ID, Namespace: j.Job.Namespace, Summary: groups, CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex,
	}
}
