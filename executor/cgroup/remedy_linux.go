// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Remedy finds out how tasks of this process could get the groups that they lack.
type Remedy struct {
	FS kernel.FS
	// Root is the folder that /run is in.
	Root   string
	Mounts []kernel.CgroupMount
}

// Lack returns why tasks get no groups with a controller (memory, cpu, io, pids, cpuset), if more is known than that,
// and a command or a boot parameter that would give them some.
func (r Remedy) Lack(controller string) (found, enable string) {
	v1 := nameV1(controller)
	// With v1 hierarchies beside it, v2 has the controllers that those do not have.
	v2, _ := kernel.MountOf(r.Mounts, "")
	onV2 := isPureV2(r.Mounts) || slices.Contains(v2.Controllers, controller)
	switch {
	case len(r.Mounts) == 0 || r.readOnly():
		return "", r.Delegation()
	case kernel.ControllerDisabled(r.FS, v1):
		return "switched off in the kernel", "boot with cgroup_enable=" + v1
	case onV2 && !slices.Contains(readWords(v2.Point, subtreeControl), controller) && !mustMoveAway(r.v2()):
		file := filepath.Join(r.v2(), subtreeControl)
		return "not delegated by the root", fmt.Sprintf("echo +%s | sudo tee %s", controller, file)
	case onV2:
		return "", r.Delegation()
	case !mountedV1(r.Mounts, v1):
		dir := filepath.Join("/sys/fs/cgroup", v1)
		enable = fmt.Sprintf("sudo mkdir -p %s && sudo mount -t cgroup -o %s none %s", dir, v1, dir)
		if v1 == "memory" || v1 == "cpuset" {
			// CONFIG_MEMCG_V1 since Linux 6.11, CONFIG_CPUSETS_V1 since 6.12; /proc/cgroups does not tell.
			enable += "; a kernel that rejects this supports it on cgroup v2 only: boot with systemd.unified_cgroup_hierarchy=1"
		}
		return "not mounted", enable
	case controller == "cpuset":
		// A delegated group would need its CPUs and nodes filled in first; root is given one that has them.
		return "", "sudo tacho run -- COMMAND"
	}
	return "", r.Delegation()
}

// Delegation returns a command that gives this user groups with controllers. Without systemd the shell itself has to
// be in groups of the user's: moving a process requires write access to its present group.
func (r Remedy) Delegation() string {
	uid := os.Geteuid()
	switch {
	case len(r.Mounts) == 0:
		return "mount -t cgroup2 none /sys/fs/cgroup"
	case r.readOnly():
		return "mount -o remount,rw /sys/fs/cgroup " +
			"(a container: start it with a writable cgroup mount, as docker run --privileged does)"
	case !isPureV2(r.Mounts):
		return delegationV1(r.Mounts)
	case r.systemdRuns() && uid == 0:
		return "systemd-run --scope -p Delegate=yes tacho run -- COMMAND"
	case r.systemdRuns() && os.Getenv("XDG_RUNTIME_DIR") == "":
		return fmt.Sprintf("sudo loginctl enable-linger %d && XDG_RUNTIME_DIR=/run/user/%[1]d tacho run -- COMMAND", uid)
	case r.systemdRuns():
		return "systemd-run --user --scope -p Delegate=yes tacho run -- COMMAND"
	case uid == 0 && mustMoveAway(r.v2()):
		return fmt.Sprintf(`sh -c "mkdir -p %[1]s/init; `+
			`for p in \$(cat %[1]s/cgroup.procs); do echo \$p > %[1]s/init/cgroup.procs; done"; `+
			`tacho run --cgroup-parent / -- COMMAND`, r.v2())
	}
	// A group with processes can hand no controllers on, so the shell gets a group beside the task's.
	return fmt.Sprintf(`sudo sh -c "mkdir -p %[1]s/shell && chown -R %[2]d %[1]s && `+
		`echo $$ > %[1]s/shell/cgroup.procs" && tacho run --cgroup-parent tacho -- COMMAND`,
		filepath.Join(r.v2(), "tacho"), uid)
}

// readOnly reports whether no hierarchy can be written to.
func (r Remedy) readOnly() bool {
	return !slices.ContainsFunc(r.Mounts, func(m kernel.CgroupMount) bool { return !m.ReadOnly })
}

// v2 returns where the v2 hierarchy is mounted.
func (r Remedy) v2() string {
	if m, ok := kernel.MountOf(r.Mounts, ""); ok {
		return m.Point
	}
	return "/sys/fs/cgroup"
}

// mustMoveAway reports whether the group at a v2 mount cannot delegate controllers because it has processes, as in a
// container.
func mustMoveAway(point string) bool { return !isRoot(point) && holdsProcesses(point) }

// delegationV1 returns a command that makes a folder for the user in every hierarchy that tasks are put into.
func delegationV1(mounts []kernel.CgroupMount) string {
	var dirs []string
	for _, m := range mounts {
		if !m.ReadOnly && (m.Version == 2 || slices.ContainsFunc(m.Controllers, isOurs)) {
			dirs = append(dirs, filepath.Join(m.Point, "tacho"))
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	return fmt.Sprintf(`sudo sh -c "for d in %s; do mkdir -p \$d && chown -R %d \$d && `+
		`echo $$ > \$d/cgroup.procs; done" && tacho run -- COMMAND`, strings.Join(dirs, " "), os.Geteuid())
}

// isOurs reports whether tasks are put into the hierarchy of a v1 controller.
func isOurs(controller string) bool { return slices.Contains(v1Controllers(false), controller) }

func isPureV2(mounts []kernel.CgroupMount) bool {
	return len(mounts) > 0 && !slices.ContainsFunc(mounts, func(m kernel.CgroupMount) bool {
		return m.Version == 1 && slices.ContainsFunc(m.Controllers, isOurs)
	})
}

// mountedV1 reports whether a controller has a v1 hierarchy.
func mountedV1(mounts []kernel.CgroupMount, controller string) bool {
	_, ok := kernel.MountOf(mounts, controller)
	return ok
}

// isRoot reports whether a v2 folder is the real root of the hierarchy.
func isRoot(dir string) bool { return kernel.IsCgroupRoot(2, dir) }

// isDelegated reports whether a v2 folder was delegated to this user. Ownership says so, but below a systemd manager
// all groups belong to its user, and only those marked so are delegated, https://systemd.io/CGROUP_DELEGATION. The
// machine's root owns everything, which says nothing.
func isDelegated(dir string) bool {
	var stat unix.Stat_t
	if os.Geteuid() == 0 && !inUserNamespace() || unix.Stat(dir, &stat) != nil || int(stat.Uid) != os.Geteuid() {
		return false
	}
	mark := make([]byte, 8)
	n, err := unix.Getxattr(dir, "user.delegate", mark) // since systemd 251
	return !systemdRuns() || err == nil && string(mark[:n]) == "1"
}

// inUserNamespace reports whether this process sees only some of the machine's users, user_namespaces(7).
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// systemdRuns reports whether systemd is the init here, sd_booted(3).
func systemdRuns() bool { return Remedy{Root: "/"}.systemdRuns() }

func (r Remedy) systemdRuns() bool {
	_, err := os.Lstat(filepath.Join(r.Root, "run/systemd/system"))
	return err == nil
}
