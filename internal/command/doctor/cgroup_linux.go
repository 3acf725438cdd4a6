// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats/kernel"
)

// checkGroup checks the cgroup that a task would get, and its controllers.
func checkGroup(host Host, group *cgroup.Group) []Check {
	mounts, err := kernel.CgroupMounts(host.FS)
	if err != nil {
		return []Check{{Name: "cgroup", State: Missing, Found: err.Error(), Costs: costsOfNoGroup}}
	}
	checks := []Check{checkPlacement(host, mounts, group)}
	if !group.Exists() {
		return checks
	}
	for _, controller := range []struct{ name, costs string }{
		{"memory", "exact memory, its peak, limits and OOM evidence"},
		{"cpu", "throttling by a CPU quota"},
		{"pids", "the number of processes and threads, and their limit"},
	} {
		checks = append(checks, checkController(host, mounts, group, controller.name, controller.costs))
	}
	// Version 1 calls it blkio.
	if group.Has("blkio") {
		return append(checks, Check{
			Name: "cgroup blkio", State: Partly, Found: "available, version 1",
			Costs:  "writes through the page cache, which version 1 does not count",
			Enable: "boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2)",
		})
	}
	return append(checks, checkController(host, mounts, group, "io", "bytes read from and written to block devices"))
}

const costsOfNoGroup = "exact totals, memory and its peak, pressure, limits and OOM evidence; only values per process remain"

func checkPlacement(host Host, mounts []kernel.CgroupMount, group *cgroup.Group) Check {
	c := Check{Name: "cgroup", State: Works, Found: fmt.Sprintf("%s, placement %s", group.Layout(), group.Placement)}
	switch {
	case group.Exists() && len(group.Notes) == 0:
		return c
	case group.Exists():
		c.State, c.Costs = Partly, strings.Join(group.Notes, "; ")
	default:
		c.State, c.Found, c.Costs = Missing, strings.Join(group.Notes, "; "), costsOfNoGroup
	}
	c.Enable = remedy(host, mounts).Delegation()
	return c
}

func remedy(host Host, mounts []kernel.CgroupMount) cgroup.Remedy {
	return cgroup.Remedy{FS: host.FS, Root: host.Root, Mounts: mounts}
}

func checkController(host Host, mounts []kernel.CgroupMount, group *cgroup.Group, name, costs string) Check {
	c := Check{Name: "cgroup " + name, State: Works, Found: "available"}
	if group.Has(name) {
		return c
	}
	found, enable := remedy(host, mounts).Lack(name)
	return Check{
		Name: c.Name, State: Missing, Found: cmp.Or(found, "not available in the task's cgroup"), Costs: costs, Enable: enable,
	}
}
