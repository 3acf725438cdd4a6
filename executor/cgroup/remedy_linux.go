// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// Lack says why tasks of this process get no groups with a controller (memory, cpu, io, pids, cpuset), as far as more
// is known than that, and what would give them some: a command or a boot parameter.
func Lack(host procstats.FS, mounts []procstats.CgroupMount, controller string) (found, enable string) {
	nameV1 := controller
	if controller == "io" {
		nameV1 = "blkio"
	}
	pure := isPureV2(mounts)
	switch {
	case isDisabled(host, nameV1):
		return "switched off in the kernel", "boot with cgroup_enable=" + nameV1
	case pure && !handedOn(mounts, controller):
		return "not handed on by the root", fmt.Sprintf("echo +%s | sudo tee %s", controller, filepath.Join(mounts[0].Point, subtreeControl))
	case !pure && len(mounts) > 0 && !mounted(mounts, nameV1):
		dir := filepath.Join("/sys/fs/cgroup", nameV1)
		return "not mounted", fmt.Sprintf("sudo mkdir -p %s && sudo mount -t cgroup -o %s none %s", dir, nameV1, dir)
	}
	if !pure && len(mounts) > 0 {
		return "", delegationV1(mounts, nameV1)
	}
	return "", Delegation(host, mounts)
}

// Delegation is what lets this user have groups with controllers here: a command, or words where it takes several.
func Delegation(host procstats.FS, mounts []procstats.CgroupMount) string {
	switch {
	case len(mounts) == 0:
		return "mount -t cgroup2 none /sys/fs/cgroup"
	case !slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool { return !m.ReadOnly }):
		return "mount -o remount,rw /sys/fs/cgroup (in a container: start it with a writable cgroup mount, as --privileged does)"
	case !isPureV2(mounts):
		return delegationV1(mounts, "")
	case systemdRuns() && os.Geteuid() != 0:
		return fmt.Sprintf("a systemd user manager: sudo loginctl enable-linger %d, and XDG_RUNTIME_DIR=/run/user/%[1]d", os.Geteuid())
	case systemdRuns():
		return "systemd-run --scope -p Delegate=yes tacho run -- COMMAND"
	case os.Geteuid() != 0:
		dir := filepath.Join(mounts[0].Point, "delegated")
		return fmt.Sprintf("sudo mkdir -p %s/session && sudo chown -R %d %[1]s && echo $$ | sudo tee %[1]s/session/cgroup.procs, then tacho run -- COMMAND",
			dir, os.Geteuid())
	}
	home, err := procstats.FindCgroup(host, os.Getpid())
	if err != nil || home.V2 == "" {
		return ""
	}
	return fmt.Sprintf("cd %s && mkdir -p init && xargs -n1 < cgroup.procs sh -c 'echo $0 > init/cgroup.procs', then tacho run --cgroup-parent %s -- COMMAND",
		home.V2, pathWithin(home.V2, mounts))
}

// delegationV1 is a folder of the user's own in every v1 hierarchy that tasks are put into, and in that of one more
// controller. In v2 beside them it would be of no use: moving a process there takes write access to the root.
func delegationV1(mounts []procstats.CgroupMount, controller string) string {
	var dirs []string
	for _, m := range mounts {
		if m.Version == 1 && !m.ReadOnly && (slices.ContainsFunc(m.Controllers, isOurs) || slices.Contains(m.Controllers, controller)) {
			dirs = append(dirs, filepath.Join(m.Point, "tacho"))
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	list := strings.Join(dirs, " ")
	return fmt.Sprintf("sudo mkdir -p %s && sudo chown -R %d %s, then tacho run --cgroup-parent tacho -- COMMAND", list, os.Geteuid(), list)
}

// pathWithin is a folder's path within its hierarchy, as --cgroup-parent takes it.
func pathWithin(dir string, mounts []procstats.CgroupMount) string {
	for _, m := range mounts {
		if below, ok := strings.CutPrefix(dir, strings.TrimSuffix(m.Point, "/")); ok && (below == "" || below[0] == '/') {
			return filepath.Join("/", below)
		}
	}
	return dir
}

// isOurs reports whether tasks are put into the hierarchy of a v1 controller.
func isOurs(controller string) bool { return slices.Contains(v1Controllers(false), controller) }

func isPureV2(mounts []procstats.CgroupMount) bool {
	return len(mounts) > 0 && !slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool {
		return m.Version == 1 && slices.ContainsFunc(m.Controllers, isOurs)
	})
}

// handedOn reports whether a v2 root gives a controller to its children.
func handedOn(mounts []procstats.CgroupMount, controller string) bool {
	return slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool {
		return m.Version == 2 && slices.Contains(readWords(m.Point, subtreeControl), controller)
	})
}

func mounted(mounts []procstats.CgroupMount, controller string) bool {
	return slices.ContainsFunc(mounts, func(m procstats.CgroupMount) bool { return slices.Contains(m.Controllers, controller) })
}

// isDisabled reports whether the last column of /proc/cgroups, enabled, is 0 for a controller, cgroups(7). Some kernels
// leave out of the file what they have for v2 only.
func isDisabled(host procstats.FS, controller string) bool {
	text, err := os.ReadFile(filepath.Join(host.Proc, "cgroups"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[0] == controller {
			return fields[3] == "0"
		}
	}
	return false
}

// isRoot reports whether a v2 folder is the real root of the hierarchy: only the root has no cgroup.type.
func isRoot(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, fs.ErrNotExist)
}

// isDelegated reports whether a v2 folder was handed to this user to divide. Ownership says so, but below a systemd
// manager all groups are its user's, and only those marked so are not the manager's own to change,
// https://systemd.io/CGROUP_DELEGATION. Root owns everything and is given nothing by that.
func isDelegated(dir string) bool {
	var stat unix.Stat_t
	if os.Geteuid() == 0 || unix.Stat(dir, &stat) != nil || int(stat.Uid) != os.Geteuid() {
		return false
	}
	mark := make([]byte, 8)
	n, err := unix.Getxattr(dir, "user.delegate", mark) // since systemd 251
	return !systemdRuns() || err == nil && string(mark[:n]) == "1"
}

// systemdRuns reports whether systemd is the init here, sd_booted(3).
func systemdRuns() bool {
	_, err := os.Lstat("/run/systemd/system")
	return err == nil
}
