// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
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
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/kernel"
)

// checkWhere says in which kind of place tacho runs: on the machine itself, or in what kind of container, with whose
// rights.
func checkWhere(host Host) Check {
	c := Check{Name: "place", State: Works, Found: "no sign of a container"}
	if signs := containerSigns(host); len(signs) > 0 {
		c.Found = "this looks like a container: " + strings.Join(signs, ", ")
	}
	who := fmt.Sprintf("user %d", os.Geteuid())
	switch {
	case host.namespaced("user"):
		who += ", in a user namespace (rootless)"
	case os.Geteuid() != 0:
		who += ", unprivileged"
	}
	c.Found += "; " + who
	return c
}

// containerSigns are the marks that container runtimes leave.
func containerSigns(host Host) []string {
	var signs []string
	for _, mark := range []struct{ file, of string }{
		{".dockerenv", "Docker"},
		{"run/.containerenv", "Podman"},
		{"var/run/secrets/kubernetes.io", "Kubernetes"},
		{"dev/.lxc-boot-id", "LXC"},
		{"dev/lxd/sock", "LXD"},
	} {
		if _, err := os.Stat(filepath.Join(host.Root, mark.file)); err == nil {
			signs = append(signs, fmt.Sprintf("%s (/%s)", mark.of, mark.file))
		}
	}
	// systemd writes there what kind it found, https://systemd.io/CONTAINER_INTERFACE.
	if kind, err := os.ReadFile(filepath.Join(host.Root, "run/systemd/container")); err == nil {
		signs = append(signs, strings.TrimSpace(string(kind))+" (/run/systemd/container)")
	}
	// The first process was told; only its own user may read that.
	if environ, err := os.ReadFile(filepath.Join(host.FS.Proc, "1/environ")); err == nil {
		for variable := range strings.SplitSeq(string(environ), "\x00") {
			if kind, found := strings.CutPrefix(variable, "container="); found && kind != "" {
				signs = append(signs, kind+" (the environment of process 1)")
			}
		}
	}
	if own, err := os.ReadFile(filepath.Join(host.FS.Proc, "self/cgroup")); err == nil {
		for _, word := range []string{"docker", "kubepods", "libpod", "lxc", "containerd", "crio"} {
			if strings.Contains(string(own), "/"+word) {
				signs = append(signs, fmt.Sprintf("a cgroup of %s", word))
			}
		}
	}
	return signs
}

// namespaced reports whether this process is in another namespace of a kind than the first process of the machine.
func (h Host) namespaced(kind string) bool {
	// include/linux/proc_ns.h: the first namespaces of these kinds have numbers that never change.
	initial := map[string]string{"cgroup": "cgroup:[4026531835]", "pid": "pid:[4026531836]", "user": "user:[4026531837]"}
	link, err := os.Readlink(filepath.Join(h.FS.Proc, "self/ns", kind))
	return err == nil && link != initial[kind]
}

// checkNamespaces says what namespaces keep out of sight.
func checkNamespaces(host Host) Check {
	c := Check{Name: "namespaces", State: Works, Found: "those of the machine, for cgroups, processes and users"}
	var in, costs []string
	for _, namespace := range []struct{ kind, costs string }{
		{"cgroup", "groups above the root of the namespace: their lower limits, and whether their memory or the host's ran out"},
		{"pid", "processes outside; the kernel log names processes by the host's numbers, which are translated where they can be"},
		{"user", "the rights of the machine's root: an executor cannot be spared by the OOM killer"},
	} {
		if host.namespaced(namespace.kind) {
			in, costs = append(in, namespace.kind), append(costs, namespace.costs)
		}
	}
	if len(in) == 0 {
		return c
	}
	c.State, c.Found, c.Costs = Partly, "namespaces of its own: "+strings.Join(in, ", "), strings.Join(costs, "; ")
	var options []string
	for _, kind := range in {
		options = append(options, map[string]string{"cgroup": "--cgroupns=host", "pid": "--pid=host", "user": "--userns=host"}[kind])
	}
	c.Enable = "in a container: docker run " + strings.Join(options, " ")
	return c
}

// checkHidden is about proc mounted with hidepid, proc(5): processes of other users are out of sight.
func checkHidden(host Host) Check {
	c := Check{Name: "hidden processes", State: Works, Found: "none: /proc shows everybody's"}
	if err := client.CheckProc(host.FS); err != nil {
		return Check{
			Name: c.Name, State: Missing, Found: err.Error(), Costs: "everything: processes cannot be told apart, and nothing is started",
			Enable: "mount -t proc proc /proc, as unshare --mount-proc does",
		}
	}
	mode, group := hidepid(host)
	if mode == "" || mode == "0" || mode == "off" {
		return c
	}
	c.Found = fmt.Sprintf("/proc is mounted with hidepid=%s", mode)
	if capable(host, capSysPtrace) || inGroup(group) {
		c.Found += ", which does not hold for this user"
		return c
	}
	c.State = Partly
	c.Costs = "processes of the task that change their user, as sudo does: without a cgroup they are not counted"
	c.Enable = "sudo mount -o remount,hidepid=0 /proc"
	return c
}

// hidepid returns the options of the proc that is seen; "" for none.
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

// checkSeccomp is about system call filters, seccomp(2): which of the calls that tacho can do without are denied.
func checkSeccomp(host Host) Check {
	c := Check{Name: "system call filter", State: Works, Found: "none"}
	if statusField(host, "Seccomp") != "2" {
		return c
	}
	c.Found = "there is one; it lets through what tacho needs"
	var denied, costs []string
	if err := cgroup.CanClone(); err != nil {
		denied = append(denied, err.Error())
		costs = append(costs, "a start in the cgroup by descriptor; the executor visits the group instead, and a few of its pages count as the task's")
	}
	if err := process.Supported(); err != nil {
		denied = append(denied, err.Error())
		costs = append(costs, "certainty that a signal goes to the right process")
	}
	if len(denied) > 0 {
		c.State, c.Found, c.Costs = Partly, "it denies "+strings.Join(denied, ", "), strings.Join(costs, "; ")
		c.Enable = "in a container: a newer runtime, or docker run --security-opt seccomp=PROFILE with these calls allowed"
	}
	return c
}

// statusField returns a field of /proc/self/status, proc_pid_status(5).
func statusField(host Host, name string) string {
	text, err := os.ReadFile(filepath.Join(host.FS.Proc, "self/status"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// checkSecurityModule is about SELinux and AppArmor. What they deny looks like missing permission; with all
// capabilities of root it is theirs.
func checkSecurityModule(host Host, group *cgroup.Group) Check {
	c := Check{Name: "security module", State: Works, Found: "neither SELinux nor AppArmor confines this process"}
	label, err := os.ReadFile(filepath.Join(host.FS.Proc, "self/attr/current"))
	context := strings.TrimRight(string(label), "\x00\n")
	enforcing, errSELinux := os.ReadFile(filepath.Join(host.Root, "sys/fs/selinux/enforce"))
	enable := "docker run --security-opt label=disable, or setsebool -P container_manage_cgroup on"
	switch {
	case errSELinux == nil && strings.TrimSpace(string(enforcing)) == "1":
		c.Found = "SELinux is enforcing; this process is " + context
	case err == nil && context != "" && !strings.HasPrefix(context, "unconfined") && errors.Is(errSELinux, fs.ErrNotExist):
		c.Found = "AppArmor confines this process: " + context
		enable = "docker run --security-opt apparmor=unconfined"
	default:
		return c
	}
	denied := slices.ContainsFunc(group.Notes, func(note string) bool { return strings.Contains(note, unix.EACCES.Error()) })
	if denied && capable(host, capDACOverride) {
		c.State, c.Costs, c.Enable = Partly, costsOfNoGroup, enable
		c.Found += "; making cgroups is denied"
	}
	return c
}
