// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats"
)

// cgroupRoot is where drivers look for cgroups, whatever is mounted elsewhere.
const cgroupRoot = "/sys/fs/cgroup"

// taskPlace is where drivers of others look for the cgroup of a task. The names are those of Nomad's client.
type taskPlace struct {
	root  string
	group *cgroup.Group
	// shown is what the driver is told: the group on version 2, that of the cpuset controller on version 1.
	shown string
}

// v1Controllers are those of whose hierarchies a task has a group of its own.
func v1Controllers() []string { return []string{"freezer", "cpu", "memory"} }

// placeOf returns the place of a task's cgroup; nil if this host has none of the kind, or nothing may be made in it.
func placeOf(root, allocID, task string, cores bool) *taskPlace {
	partition, scope := "share", allocID+"."+task
	if cores {
		partition = "reserve"
	}
	p := &taskPlace{root: root}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		p.shown = filepath.Join(root, "nomad.slice", partition, scope+".scope")
		p.group = cgroup.Of(procstats.Cgroup{V2: p.shown}, true)
		return p
	}
	if os.Geteuid() != 0 {
		return nil
	}
	folders := make(map[string]string)
	for _, controller := range append(v1Controllers(), "cpuset") {
		if _, err := os.Stat(filepath.Join(root, controller, "tasks")); err != nil {
			return nil // drivers expect all of them
		}
		folders[controller] = filepath.Join(root, controller, "nomad", scope)
	}
	delete(folders, "cpuset")
	p.shown = filepath.Join(root, "cpuset", "nomad", partition)
	if cores {
		p.shown = filepath.Join(p.shown, scope)
		folders["cpuset"] = p.shown
	}
	p.group = cgroup.Of(procstats.Cgroup{V1: folders}, true)
	return p
}

// make makes the group with all that is above it.
func (p *taskPlace) make() error {
	if p.group.V2 != "" {
		return p.makeV2()
	}
	for _, dir := range p.group.Folders() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup of task: %w", err)
		}
	}
	return fillCpusets(p.root, p.shown)
}

// makeV2 makes the group, and hands on the controllers that there are: a driver sets limits in it.
func (p *taskPlace) makeV2() error {
	if err := os.MkdirAll(p.shown, 0o755); err != nil {
		return fmt.Errorf("make cgroup of task: %w", err)
	}
	for _, dir := range []string{p.root, filepath.Join(p.root, "nomad.slice"), filepath.Dir(p.shown)} {
		for _, controller := range []string{"cpuset", "cpu", "io", "memory", "pids"} {
			// One that the host does not have is not there for the task.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
		}
	}
	return nil
}

// fillCpusets makes a group of the cpuset hierarchy and those above it. A new one has no CPUs and no memory, and takes no process
// without: it gets what the one above has. What another client has set stays.
func fillCpusets(root, dir string) error {
	hierarchy := filepath.Join(root, "cpuset")
	above := hierarchy
	for name := range strings.SplitSeq(strings.TrimPrefix(dir, hierarchy+"/"), "/") {
		own := filepath.Join(above, name)
		if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup of task: %w", err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(above, own, file); err != nil {
				return fmt.Errorf("make cgroup of task: %w", err)
			}
		}
		above = own
	}
	return nil
}

// inherit gives a group the value that the one above has, if it has none.
func inherit(above, own, file string) error {
	value, err := os.ReadFile(filepath.Join(own, file))
	if err != nil || strings.TrimSpace(string(value)) != "" {
		return err
	}
	value, err = os.ReadFile(filepath.Join(above, file))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(own, file), value, 0)
}
