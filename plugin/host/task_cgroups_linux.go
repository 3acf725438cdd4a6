// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"context"
	"sync"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/cgroup"
)

// taskCgroups makes the cgroup of each task that a driver of others starts, as the client of a Nomad cluster does: such a
// driver finds a task's processes there, for its statistics and to kill them. What is left in it when the task is destroyed is
// killed.
type taskCgroups struct {
	mu     sync.Mutex // guards following
	groups map[string]*cgroup.Group
}

// make makes the cgroup of a task and tells the task of it. What an earlier start has left in it is killed.
func (c *taskCgroups) make(ctx context.Context, task *driver.TaskConfig) error {
	if task.Resources == nil || task.Resources.Linux == nil {
		return nil
	}
	linux := task.Resources.Linux
	place := placeOf(cgroupRoot, task.AllocID, task.Name, linux.CpusetCPUs != "")
	if place == nil {
		return nil
	}
	if err := place.group.Empty(ctx); err != nil {
		return err
	}
	if err := place.make(); err != nil {
		return err
	}
	linux.CpusetCgroup = place.shown
	c.remember(task.ID, place.group)
	return nil
}

// recover remembers the cgroup of a task that was started by an earlier run.
func (c *taskCgroups) recover(task *driver.TaskConfig) {
	if task == nil || task.Resources == nil || task.Resources.Linux == nil || task.Resources.Linux.CpusetCgroup == "" {
		return
	}
	if place := placeOf(cgroupRoot, task.AllocID, task.Name, task.Resources.Linux.CpusetCPUs != ""); place != nil {
		c.remember(task.ID, place.group)
	}
}

func (c *taskCgroups) remember(id string, group *cgroup.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups = make(map[string]*cgroup.Group)
	}
	c.groups[id] = group
}

// end kills what is left of a task and removes its cgroup.
func (c *taskCgroups) end(ctx context.Context, id string) error {
	c.mu.Lock()
	group := c.groups[id]
	c.mu.Unlock()
	if group == nil {
		return nil
	}
	if err := group.Empty(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	delete(c.groups, id)
	c.mu.Unlock()
	return nil
}
