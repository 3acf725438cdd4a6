// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"fmt"
	"os"
	"slices"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
)

// config makes the task's directories and files and returns what the driver is to start.
func (t *Task) config() (*driver.TaskConfig, error) {
	a := t.alloc
	s, err := t.inputs()
	if err != nil {
		return nil, err
	}
	owner, err := ownerOf(t.spec.User)
	if err != nil {
		return nil, err
	}
	if err := a.Dir.MakeShared(t.owners()); err != nil {
		return nil, err
	}
	if err := a.Dir.Make(t.spec.Name, owner); err != nil {
		return nil, err
	}
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	if err := s.render(env, owner); err != nil {
		return nil, err
	}
	config := &driver.TaskConfig{
		ID: newRunID(a.ID, t.spec.Name), Name: t.spec.Name, AllocID: a.ID, JobID: t.job.ID, JobName: t.job.Name,
		TaskGroupName: t.group.Name, Namespace: t.job.Namespace, NodeName: t.host.Node.Name,
		Env: env, Resources: resources(t.spec.Resources, s.cores),
		User: t.spec.User, AllocDir: string(a.Dir), Persisted: true,
		Sampled: t.host.Config().Telemetry.PublishAllocationMetrics,
	}
	if err := s.configure(config, env); err != nil {
		return nil, err
	}
	if t.spec.Logs != nil && t.spec.Logs.Disabled {
		config.StdoutPath, config.StderrPath = os.DevNull, os.DevNull
	}
	return config, nil
}

// owners are those of the tasks of the allocation.
func (t *Task) owners() []*datadir.Owner {
	var owners []*datadir.Owner
	for i := range t.group.Tasks {
		owner, err := ownerOf(t.group.Tasks[i].User)
		if err != nil {
			owner = &datadir.Owner{UID: -1, GID: -1}
		}
		owners = append(owners, owner)
	}
	return owners
}

// configure decodes the task's config block into the driver's request, and refuses what the driver would not start.
func (s *start) configure(into *driver.TaskConfig, env map[string]string) error {
	task := s.task
	encoded, diags := driver.TaskSchema().Encode(s.expressions.Config(s.scope(env)))
	if diags.HasErrors() {
		return job.Mistakes(diags)
	}
	if err := driver.CheckSignal(task.KillSignal); err != nil {
		return task.Places.Fault("kill_signal", err)
	}
	block, err := driver.DecodeBlock(encoded)
	if err != nil {
		return task.Places.Fault("config", err)
	}
	if l := task.Logs; l != nil && block.MaxFiles == 0 && block.MaxFileBytes == 0 {
		block.MaxFiles, block.MaxFileBytes = l.MaxFiles, int64(l.MaxFileSizeMB)<<20
	}
	into.Block = block
	return nil
}

// resources are a task's limits in the kernel's terms. MHz are v1's shares, one for one, as hosts have it.
func resources(r job.Resources, cores string) *driver.Resources {
	return &driver.Resources{Linux: &driver.LinuxResources{
		CPUShares: int64(r.CPU), MemoryLimitBytes: r.MemoryLimitBytes(), CpusetCPUs: cores,
	}}
}

// coreList writes cores as 0-3,7.
func coreList(cores []int) string { return cgroup.FormatCPUs(slices.Sorted(slices.Values(cores))) }

// inputs are what a start of the task is made of. Its expressions are read from the job file once more, so that
// only a start holds them in memory.
func (t *Task) inputs() (*start, error) {
	a, name := t.alloc, t.spec.Name
	file, err := job.Read(t.job.Source)
	if err != nil {
		return nil, err
	}
	group := file.Group(a.Group)
	if group == nil || group.Task(name) == nil {
		return nil, fmt.Errorf("job %s has no task %s in group %s", a.JobID, name, a.Group)
	}
	spec := group.Task(name)
	return &start{
		job: file.Job, group: group, task: spec, expressions: file.Expressions(spec),
		allocID: a.ID, allocName: a.Name(), index: a.Index, dir: a.Dir, node: *a.host.NodeNow(),
		cores: coreList(a.persisted.Cores[name]), ports: a.persisted.Ports,
	}, nil
}

// ownerOf is whose a task's directories are; nil where the task runs as this process does.
func ownerOf(name string) (*datadir.Owner, error) {
	if name == "" {
		return nil, nil
	}
	uid, gid, err := driver.LookupUser(name)
	return &datadir.Owner{UID: int(uid), GID: int(gid)}, err
}
