// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// Cgroup says where the files of one control group are, on any layout: version 2 alone, version 1 with a folder
// per controller, or both (hybrid). The zero Cgroup is no cgroup at all.
type Cgroup struct {
	// V2 is the folder in the unified hierarchy, empty without one.
	V2 string
	// V1 maps a controller (memory, cpu, cpuacct, pids, blkio, freezer, cpuset) to the folder in its hierarchy.
	V1 map[string]string
	// Shared reports that processes which are not the task's live in the same group, so that its totals are
	// not the task's.
	Shared bool
}

// Exists reports whether there is a cgroup on any hierarchy.
func (c Cgroup) Exists() bool { return c.V2 != "" || len(c.V1) > 0 }

// Encloses reports whether the task has a cgroup to itself: its totals are the task's, and so is every process in it.
func (c Cgroup) Encloses() bool { return c.Exists() && !c.Shared }

// Layout returns "v2", "v1", "hybrid" or "none".
func (c Cgroup) Layout() string {
	switch {
	case c.V2 != "" && len(c.V1) > 0:
		return "hybrid"
	case c.V2 != "":
		return "v2"
	case len(c.V1) > 0:
		return "v1"
	}
	return "none"
}

// Procs returns the folder whose cgroup.procs lists the task's processes: v2 first, else the first v1
// controller in a fixed order; empty where there is no cgroup.
func (c Cgroup) Procs() string {
	if c.V2 != "" {
		return c.V2
	}
	for _, controller := range []string{"freezer", "pids", "memory", "cpuacct", "cpu", "blkio", "cpuset"} {
		if dir := c.V1[controller]; dir != "" {
			return dir
		}
	}
	return ""
}
