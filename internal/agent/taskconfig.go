// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"os"
	"slices"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/internal/agent/allocdir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/registry"
)

// taskConfig makes the task's directories and files and says what the driver shall start.
func (t *task) taskConfig() (*driver.TaskConfig, error) {
	a := t.alloc
	s, err := a.start(t.spec.Name)
	if err != nil {
		return nil, err
	}
	owner, err := ownerOf(t.spec.User)
	if err != nil {
		return nil, err
	}
	if err := a.dir.MakeShared(a.owners()); err != nil {
		return nil, err
	}
	if err := a.dir.Make(t.spec.Name, owner); err != nil {
		return nil, err
	}
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	if err := s.renderAll(env, owner); err != nil {
		return nil, err
	}
	config := &driver.TaskConfig{
		ID: newRunID(a.id, t.spec.Name), Name: t.spec.Name, AllocID: a.id, JobID: a.job.ID, JobName: a.job.Name,
		TaskGroupName: a.group.Name, Namespace: a.job.Namespace, NodeID: t.agent.node.ID, NodeName: t.agent.node.Name,
		Env: env, Resources: resources(t.spec.Resources, s.cores, t.agent.node.Resources.TotalMHz()),
		User: t.spec.User, AllocDir: string(a.dir),
	}
	if err := s.configure(t.agent.driver, config, env); err != nil {
		return nil, err
	}
	if t.spec.Logs != nil && t.spec.Logs.Disabled {
		config.StdoutPath, config.StderrPath = os.DevNull, os.DevNull
	}
	return config, nil
}

// owners are those of the tasks of the allocation, without one whose user does not exist: its start says so.
func (a *alloc) owners() []*allocdir.Owner {
	var owners []*allocdir.Owner
	for i := range a.group.Tasks {
		if owner, err := ownerOf(a.group.Tasks[i].User); err == nil {
			owners = append(owners, owner)
		}
	}
	return owners
}

// configure puts the task's config block into what its driver is to start.
func (s *start) configure(d *registry.Driver, into *driver.TaskConfig, env map[string]string) error {
	body, vars := s.expressions.Config(s.scope(env))
	return d.Configure(into, s.task, body, vars)
}

// resources are a task's limits in the kernel's terms. MHz are v1's shares, one for one, as hosts have it.
func resources(r job.Resources, cores string, totalMHz float64) *driver.Resources {
	linux := &driver.LinuxResources{
		CPUShares: int64(r.CPU), MemoryLimitBytes: r.MemoryLimitBytes(), CpusetCPUs: cores,
	}
	if totalMHz > 0 {
		linux.PercentTicks = float64(r.CPU) / totalMHz
	}
	return &driver.Resources{
		CPUShares: int64(r.CPU), MemoryMB: int64(r.MemoryMB), MemoryMaxMB: int64(r.MemoryMaxMB), Linux: linux,
	}
}

// coreList writes cores as 0-3,7.
func coreList(cores []int) string { return cgroup.FormatCPUs(slices.Sorted(slices.Values(cores))) }

// start is what a start of a task is made of. Its expressions are read from the job file once more, so that
// only a start holds them in memory.
func (a *alloc) start(name string) (*start, error) {
	file, err := job.Read(a.job.Source)
	if err != nil {
		return nil, err
	}
	group := file.Job.Group(a.group.Name)
	if group == nil || group.Task(name) == nil {
		return nil, fmt.Errorf("job %s has no task %s in group %s", a.job.ID, name, a.group.Name)
	}
	spec := group.Task(name)
	return &start{
		job: file.Job, group: group, task: spec, expressions: file.Expressions(spec), allocID: a.id, allocName: a.name(),
		index: a.persisted.Index, cores: coreList(a.persisted.Cores[name]), dir: a.dir, node: a.agent.node, ports: a.persisted.Ports,
	}, nil
}
