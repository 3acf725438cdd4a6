// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats"
)

// checkGroup says what cgroup a task would get and which controllers are in it.
func checkGroup(host Host, group *cgroup.Group) []Check {
	mounts, err := procstats.CgroupMounts(host.FS)
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
			Costs: "writes through the page cache: version 1 does not count them", Enable: "boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2)",
		})
	}
	return append(checks, checkController(host, mounts, group, "io", "bytes read from and written to block devices"))
}

const costsOfNoGroup = "exact totals, memory and its peak, pressure, limits and OOM evidence: what is left are the processes' own values"

func checkPlacement(host Host, mounts []procstats.CgroupMount, group *cgroup.Group) Check {
	c := Check{Name: "cgroup", State: Works, Found: fmt.Sprintf("%s, placed: %s", group.Layout(), group.Placement)}
	switch {
	case group.Exists() && len(group.Notes) == 0:
		return c
	case group.Exists():
		c.State, c.Costs = Partly, strings.Join(group.Notes, "; ")
		c.Enable = delegate(host, mounts)
		return c
	}
	c.State, c.Found, c.Costs = Missing, strings.Join(group.Notes, "; "), costsOfNoGroup
	switch {
	case len(mounts) == 0:
		c.Enable = "mount -t cgroup2 none /sys/fs/cgroup"
	case !slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool { return !m.ReadOnly }):
		c.Enable = "mount -o remount,rw /sys/fs/cgroup (a container: start it with a writable cgroup mount, as with --privileged or --cgroupns=private)"
	default:
		c.Enable = delegate(host, mounts)
	}
	return c
}

// delegate is the command that lets this user make cgroups with controllers. Without systemd the shell itself has to be
// in groups of the user's: moving a process takes write access to where it comes from.
func delegate(host Host, mounts []procstats.CgroupMount) string {
	switch pure := isPureV2(mounts); {
	case pure && isSystemd(host) && os.Geteuid() == 0:
		return "systemd-run --scope -p Delegate=yes tacho run -- COMMAND"
	case pure && isSystemd(host):
		return "systemd-run --user --scope -p Delegate=yes tacho run -- COMMAND"
	case pure:
		// A group with processes can hand no controllers on, so the shell gets a group beside the task's.
		return fmt.Sprintf(`sudo sh -c "mkdir -p %[1]s/shell && chown -R %[2]d %[1]s && echo $$ > %[1]s/shell/cgroup.procs" && tacho run --cgroup-parent tacho -- COMMAND`,
			filepath.Join(mounts[0].Point, "tacho"), os.Geteuid())
	}
	var dirs []string
	for _, m := range mounts {
		if !m.ReadOnly && (m.Version == 2 || isUsed(m)) {
			dirs = append(dirs, filepath.Join(m.Point, "tacho"))
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	return fmt.Sprintf(`sudo sh -c "for d in %s; do mkdir -p \$d && chown -R %d \$d && echo $$ > \$d/cgroup.procs; done" && tacho run -- COMMAND`,
		strings.Join(dirs, " "), os.Geteuid())
}

// isSystemd reports whether systemd is the init here, sd_booted(3).
func isSystemd(host Host) bool {
	_, err := os.Stat(filepath.Join(host.Root, "run/systemd/system"))
	return err == nil
}

// isUsed reports whether tasks are put into a v1 hierarchy.
func isUsed(m procstats.CgroupMount) bool {
	return slices.ContainsFunc(m.Controllers, func(controller string) bool {
		return slices.Contains([]string{"memory", "cpu", "cpuacct", "pids", "blkio", "freezer"}, controller)
	})
}

func isPureV2(mounts []procstats.CgroupMount) bool {
	return len(mounts) > 0 && !slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool { return m.Version == 1 })
}

func checkController(host Host, mounts []procstats.CgroupMount, group *cgroup.Group, name, costs string) Check {
	c := Check{Name: "cgroup " + name, State: Works, Found: "available"}
	if group.Has(name) {
		return c
	}
	c.State, c.Found, c.Costs = Missing, "not available in the task's cgroup", costs
	switch {
	case isDisabled(host, name):
		c.Found, c.Enable = "switched off in the kernel", "boot with cgroup_enable="+name
	case isPureV2(mounts) && !handedOn(mounts, name):
		c.Enable = fmt.Sprintf("echo +%s | sudo tee %s", name, filepath.Join(mounts[0].Point, "cgroup.subtree_control"))
	case isPureV2(mounts):
		c.Enable = delegate(host, mounts)
	case !mounted(mounts, name):
		dir := filepath.Join("/sys/fs/cgroup", name)
		c.Found = "not mounted"
		c.Enable = fmt.Sprintf("sudo mkdir -p %s && sudo mount -t cgroup -o %s none %s", dir, name, dir)
	default:
		c.Enable = delegate(host, mounts)
	}
	return c
}

// handedOn reports whether a v2 root gives a controller to its children.
func handedOn(mounts []procstats.CgroupMount, name string) bool {
	for _, m := range mounts {
		text, err := fs.ReadFile(os.DirFS(m.Point), "cgroup.subtree_control")
		if err == nil && slices.Contains(strings.Fields(string(text)), name) {
			return true
		}
	}
	return false
}

func mounted(mounts []procstats.CgroupMount, name string) bool {
	return slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool { return slices.Contains(m.Controllers, name) })
}

// isDisabled reports whether the last column of /proc/cgroups, enabled, is 0 for a controller, cgroups(7).
func isDisabled(host Host, name string) bool {
	text, err := os.ReadFile(filepath.Join(host.FS.Proc, "cgroups"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[0] == name {
			return fields[3] == "0"
		}
	}
	return false
}
