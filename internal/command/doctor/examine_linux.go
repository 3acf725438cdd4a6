// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
)

// Examine checks what can be measured. It creates the cgroup that a task would get and a directory, and removes both.
func Examine(host Host) (*Report, error) {
	r := &Report{}
	r.Checks = append(r.Checks, checkWhere(host), checkKernel(host), checkNamespaces(host), checkHidden(host))
	group, err := cgroup.Create(cgroup.Options{FS: host.FS, ID: fmt.Sprintf("doctor-%d", os.Getpid())})
	if err != nil {
		group = cgroup.None(err.Error())
	}
	r.Notes = group.Notes
	tried := network.Try(host.FS)
	r.Checks = append(r.Checks, checkGroup(host, group)...)
	r.Checks = append(r.Checks,
		checkClone(group), checkSeccomp(host), checkSecurityModule(host, group),
		checkPressure(host), checkPidfd(), checkKmsg(host), checkExits(host, group), checkNetwork(tried, group),
		checkChildren(host), checkOwnProcess(host), checkOtherUsers(host), checkOOMScore(host))
	return r, errors.Join(r.tryCollect(host, group, tried), group.Remove())
}

// tryCollect reads everything once: of the empty cgroup, and of this process in place of a task.
func (r *Report) tryCollect(host Host, group *cgroup.Group, tried error) error {
	dir, err := os.MkdirTemp("", "tacho-doctor-")
	if err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	c := source.Open(source.Target{
		FS: host.FS, Cgroup: group.Cgroup, Dir: dir,
		Roots:  func() []int { return []int{os.Getpid()} },
		Reaped: func() source.Reaped { return source.Reaped{} },
	}, selection(), packets(host, group, tried))
	r.measure(c)
	return errors.Join(c.Close(), os.Remove(dir))
}

// packets counts those of the group, as for a task, unless counting a packet of this process failed.
func packets(host Host, group *cgroup.Group, tried error) *network.Source {
	if tried != nil {
		return network.Absent(selection(), tried.Error())
	}
	dir := ""
	if group.Encloses() {
		dir = group.V2
	}
	return network.Open(host.FS, selection(), dir, true)
}

// checkGroup checks the cgroup that a task would get, and its controllers.
func checkGroup(host Host, group *cgroup.Group) []Check {
	mounts, err := kernel.CgroupMounts(host.FS)
	if err != nil {
		return []Check{works("cgroup", "").missing(err.Error(), costsOfNoGroup, "")}
	}
	checks := []Check{checkPlacement(host, mounts, group)}
	if !group.Exists() {
		return checks
	}
	for _, controller := range [][2]string{
		{"memory", "exact memory, its peak, limits and OOM evidence"},
		{"cpu", "throttling by a CPU quota"},
		{"pids", "the number of processes and threads, and their limit"},
		{"io", "bytes read from and written to block devices"},
	} {
		checks = append(checks, checkController(host, mounts, group, controller[0], controller[1]))
	}
	if group.Has("blkio") { // io in version 1
		checks[len(checks)-1] = works("cgroup blkio", "").partly("available, version 1",
			"writes through the page cache, which version 1 does not count",
			"boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2)")
	}
	return checks
}

const costsOfNoGroup = "exact totals, memory and its peak, pressure, limits and OOM evidence; " +
	"only values per process remain"

func checkPlacement(host Host, mounts []kernel.CgroupMount, group *cgroup.Group) Check {
	c := works("cgroup", fmt.Sprintf("%s, placement %s", group.Layout(), group.Placement))
	notes := strings.Join(group.Notes, "; ")
	switch {
	case !group.Exists():
		return c.missing(notes, costsOfNoGroup, remedy(host, mounts).Delegation())
	case notes != "":
		return c.partly(c.Found, notes, remedy(host, mounts).Delegation())
	}
	return c
}

func remedy(host Host, mounts []kernel.CgroupMount) cgroup.Remedy {
	return cgroup.Remedy{FS: host.FS, Root: host.Root, Mounts: mounts}
}

func checkController(host Host, mounts []kernel.CgroupMount, group *cgroup.Group, name, costs string) Check {
	c := works("cgroup "+name, "available")
	if group.Has(name) {
		return c
	}
	found, enable := remedy(host, mounts).Lack(name)
	return c.missing(cmp.Or(found, "not available in the task's cgroup"), costs, enable)
}
