// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/kernel"
)

// checkWhere checks the environment: on the host or in which kind of container, and as which user.
func checkWhere(host Host) Check {
	found := "no sign of a container"
	if signs := containerSigns(host); len(signs) > 0 {
		found = "container: " + strings.Join(signs, ", ")
	}
	who := fmt.Sprintf("user %d", os.Geteuid())
	switch {
	case host.namespaced("user"):
		who += ", in a user namespace (rootless)"
	case os.Geteuid() != 0:
		who += ", unprivileged"
	}
	return works("environment", found+"; "+who)
}

// containerSigns returns the signs of container runtimes.
func containerSigns(host Host) []string {
	var signs []string
	for _, mark := range [][2]string{
		{".dockerenv", "Docker"},
		{"run/.containerenv", "Podman"},
		{"var/run/secrets/kubernetes.io", "Kubernetes"},
		{"dev/.lxc-boot-id", "LXC"},
		{"dev/lxd/sock", "LXD"},
		// Written by systemd, https://systemd.io/CONTAINER_INTERFACE.
		{"run/systemd/container", textOf(host.Root, "run/systemd/container")},
	} {
		if _, err := os.Stat(filepath.Join(host.Root, mark[0])); err == nil {
			signs = append(signs, fmt.Sprintf("%s (/%s)", mark[1], mark[0]))
		}
	}
	// Set by the container manager; readable only for the same user.
	for variable := range strings.SplitSeq(textOf(host.FS.Proc, "1/environ"), "\x00") {
		if kind, found := strings.CutPrefix(variable, "container="); found && kind != "" {
			signs = append(signs, kind+" (environment of process 1)")
		}
	}
	own := textOf(host.FS.Proc, "self/cgroup")
	for _, word := range []string{"docker", "kubepods", "libpod", "lxc", "containerd", "crio"} {
		if strings.Contains(own, "/"+word) {
			signs = append(signs, "cgroup of "+word)
		}
	}
	return signs
}

// textOf returns the text of a file, empty if it cannot be read.
func textOf(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// namespaced reports whether this process is not in the initial namespace of a kind.
func (h Host) namespaced(kind string) bool {
	// The inodes of the initial namespaces are constants, include/linux/proc_ns.h.
	initial := map[string]string{"cgroup": "cgroup:[4026531835]", "pid": "pid:[4026531836]", "user": "user:[4026531837]"}
	link, err := os.Readlink(filepath.Join(h.FS.Proc, "self/ns", kind))
	return err == nil && link != initial[kind]
}

// checkNamespaces checks what namespaces hide.
func checkNamespaces(host Host) Check {
	var in, costs, options []string
	for _, namespace := range [][3]string{
		{"cgroup", "--cgroupns=host", "ancestors of the cgroup namespace: their lower limits, and whether they or the host " +
			"ran out of memory"},
		{"pid", "--pid=host", "processes outside; PIDs in the kernel log are the host's, and cannot always be translated"},
		{"user", "--userns=host", "privileges on the host: executors are not protected from the OOM killer"},
	} {
		if host.namespaced(namespace[0]) {
			in, options, costs = append(in, namespace[0]), append(options, namespace[1]), append(costs, namespace[2])
		}
	}
	c := works("namespaces", "initial namespaces for cgroups, processes and users")
	if len(in) == 0 {
		return c
	}
	return c.partly("not in the initial namespaces: "+strings.Join(in, ", "), strings.Join(costs, "; "),
		"in a container: docker run "+strings.Join(options, " "))
}

// checkHidden checks for hidepid, proc(5), which hides the processes of other users.
func checkHidden(host Host) Check {
	c := works("hidden processes", "none: /proc shows all users' processes")
	if err := kernel.CheckProc(host.FS); err != nil {
		return c.missing(err.Error(), "everything: processes cannot be identified, so no task is started",
			"mount -t proc proc /proc, like unshare --mount-proc")
	}
	mode, group := hidepid(host)
	if mode == "" || mode == "0" || mode == "off" {
		return c
	}
	found := fmt.Sprintf("/proc is mounted with hidepid=%s", mode)
	if kernel.Capable(host.FS, unix.CAP_SYS_PTRACE) || inGroup(group) {
		return works(c.Name, found+", which does not apply to this user")
	}
	return c.partly(found, "processes of the task that change their user, such as sudo, if there is no cgroup",
		"sudo mount -o remount,hidepid=0 /proc")
}

// checkBoot checks for the id of the boot, which a /proc with subset=pid does not have.
func checkBoot(host Host) Check {
	_, err := kernel.BootID(host.FS)
	return works("boot id", "processes of another boot are told apart").unless(err,
		"proof that a process is not one of an earlier boot with the same PID and start time", "mount -t proc proc /proc")
}

// hidepid returns the hidepid options of /proc; "" for none.
func hidepid(host Host) (mode, group string) {
	mounts, err := kernel.Mounts(host.FS)
	if err != nil {
		return "", ""
	}
	for _, mount := range mounts {
		if mount.FSType != "proc" || mount.Point != "/proc" {
			continue
		}
		mode, group = "", "" // the last mount is on top
		for _, option := range mount.SuperOptions {
			if value, found := strings.CutPrefix(option, "hidepid="); found {
				mode = value
			}
			if value, found := strings.CutPrefix(option, "gid="); found {
				group = value
			}
		}
	}
	return mode, group
}

func inGroup(group string) bool {
	gid, err := strconv.Atoi(group)
	if err != nil {
		return false
	}
	groups, err := os.Getgroups()
	return err == nil && (slices.Contains(groups, gid) || os.Getegid() == gid)
}

// checkSeccomp checks which optional system calls a filter denies, seccomp(2).
func checkSeccomp(host Host) Check {
	if kernel.StatusField(host.FS, "Seccomp") != "2" {
		return works("system call filter", "none")
	}
	c := works("system call filter", "active; allows all calls that tacho makes")
	var denied, costs []string
	for i, err := range []error{cgroup.CanClone(), process.Supported()} {
		if err != nil {
			denied = append(denied, err.Error())
			costs = append(costs, []string{costsOfNoClone, costsOfNoPidfd}[i])
		}
	}
	if len(denied) == 0 {
		return c
	}
	return c.partly("denies "+strings.Join(denied, ", "), strings.Join(costs, "; "),
		"in a container: a newer runtime, or docker run --security-opt seccomp=PROFILE that allows these calls")
}

// checkSecurityModule checks SELinux and AppArmor. A permission error in spite of all capabilities is theirs. The file
// attr/current is of whichever module came first, and "kernel" where SELinux has no policy; attr/apparmor/current,
// since Linux 5.8, is AppArmor's own, proc_pid_attr(5).
func checkSecurityModule(host Host, group *cgroup.Group) Check {
	c := works("security module", "neither SELinux nor AppArmor confines this process")
	context := strings.TrimRight(textOf(host.FS.Proc, "self/attr/current"), "\x00")
	apparmor := textOf(host.FS.Proc, "self/attr/apparmor/current")
	if strings.Contains(textOf(host.Root, "sys/kernel/security/lsm"), "apparmor") {
		apparmor = cmp.Or(apparmor, context)
	}
	enforcing, errSELinux := os.ReadFile(filepath.Join(host.Root, "sys/fs/selinux/enforce"))
	enable := "docker run --security-opt label=disable, or setsebool -P container_manage_cgroup on"
	switch {
	case errSELinux == nil && strings.TrimSpace(string(enforcing)) == "1":
		c.Found = "SELinux is enforcing; this process is " + context
	case errors.Is(errSELinux, fs.ErrNotExist) && strings.Count(context, ":") >= 3: // USER:ROLE:TYPE:LEVEL
		c.Found = "SELinux labels this process " + context + ", and does not show here whether it is enforcing"
	case apparmor != "" && !strings.HasPrefix(apparmor, "unconfined"):
		c.Found = "AppArmor confines this process: " + apparmor
		enable = "docker run --security-opt apparmor=unconfined"
	default:
		return c
	}
	denied := strings.Contains(strings.Join(group.Notes, "\n"), unix.EACCES.Error())
	if !denied || !kernel.Capable(host.FS, unix.CAP_DAC_OVERRIDE) {
		return c
	}
	return c.partly(c.Found+"; creating cgroups is denied", costsOfNoGroup, enable)
}
