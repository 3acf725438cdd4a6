// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
)

// osRelease is the release of the running kernel.
type osRelease struct{ kernel.Release }

func (k osRelease) check() Check {
	c := Check{Name: "kernel", State: Works, Found: "Linux " + k.Text}
	switch {
	case k.Major == 0:
		c.State, c.Found = Partly, "kernel release unknown"
	case !k.AtLeast(4, 20):
		c.State, c.Costs, c.Enable = Partly, "pressure, and much of cgroup v2", "Linux 4.20 or newer, better 5.19"
	case !k.AtLeast(5, 19):
		c.State, c.Costs, c.Enable = Partly, "the exact memory peak of cgroup v2", "Linux 5.19 or newer"
	}
	return c
}

// checkClone checks CLONE_INTO_CGROUP, clone3(2): the process is charged to its cgroup from the first instruction.
func checkClone(group *cgroup.Group) Check {
	c := Check{Name: "start in the cgroup", State: Works, Found: "by descriptor, clone3(2)"}
	switch {
	case !group.Exists():
		c.State, c.Found, c.Costs = Missing, "no cgroup", "exact totals from the first instruction"
		return c
	case group.V2 == "":
		c.Found = "by a thread that forks in the cgroup (v1)"
		return c
	}
	if err := cgroup.CanClone(); err != nil {
		c.State, c.Found = Partly, fmt.Sprintf("the executor enters the cgroup to fork: %v", err)
		c.Costs = "exact memory: a few pages of the executor are charged to the task"
		c.Enable = "Linux 5.7 or newer, without a system call filter that denies clone3"
	}
	return c
}

func checkPressure(host Host) Check {
	c := Check{Name: "pressure (PSI)", State: Works, Found: filepath.Join(host.FS.Proc, "pressure")}
	_, err := os.ReadFile(filepath.Join(host.FS.Proc, "pressure", "cpu"))
	if err == nil {
		return c
	}
	c.State, c.Found, c.Costs = Missing, err.Error(), "what a task waited for"
	c.Enable = "boot with psi=1 (the kernel needs CONFIG_PSI=y)"
	if errors.Is(err, fs.ErrPermission) {
		c.Enable = "run as a user who may read " + filepath.Join(host.FS.Proc, "pressure")
	}
	return c
}

func checkPidfd() Check {
	c := Check{Name: "pidfd", State: Works, Found: "processes are referred to by file descriptor, pidfd_open(2)"}
	if err := process.Supported(); err != nil {
		c.State, c.Found, c.Enable = Partly, err.Error(), "Linux 5.3 or newer"
		c.Costs = "signals that cannot reach a wrong process"
	}
	return c
}

// checkKmsg checks the kernel log, which names the victim of an OOM kill.
func checkKmsg(host Host) Check {
	path := filepath.Join(host.Root, "dev/kmsg")
	c := Check{Name: "kernel log", State: Works, Found: path + " is readable"}
	// Opening does not block; reading would.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	if err != nil {
		c.State, c.Found = Partly, fmt.Sprintf("%s: %v", path, err)
		c.Costs = "the victim of an OOM kill"
		c.Enable = "sysctl -w kernel.dmesg_restrict=0, or run as root"
	}
	return c
}

// checkExits loads and tries the programs that count ended processes, and removes them.
func checkExits(host Host, group *cgroup.Group) Check {
	reader, err := exits.Open(host.FS)
	if err == nil {
		err = errors.Join(reader.Try(), reader.Close())
	}
	enable := "root in the first PID namespace, and a kernel with CONFIG_DEBUG_INFO_BTF=y"
	if err == nil && (group.V2 == "" || !group.Encloses()) {
		err, enable = errNoGroup, mountGroups
	}
	return Check{Name: "exit records", State: Works, Found: "every process that ends is counted, by command"}.
		without(err, "who used it, of processes that are too short to be sampled", enable)
}

// errNoGroup is why a task is not watched by programs that work.
var errNoGroup = errors.New("a task has no cgroup of version 2 to itself here")

const mountGroups = "a mounted cgroup v2, which may be beside version 1: mount -t cgroup2 none DIR"

// checkNetwork says how it went to count a packet that this process sent to itself.
func checkNetwork(tried error, group *cgroup.Group) Check {
	enable := "root, and Linux 5.7 or later with CONFIG_CGROUP_BPF=y and a mounted cgroup v2"
	switch {
	case errors.Is(tried, unix.ENETUNREACH):
		enable = "ip link set lo up, in this network namespace"
	case tried == nil && (group.V2 == "" || !group.Encloses()):
		tried, enable = errNoGroup, mountGroups
	}
	return Check{Name: "network", State: Works, Found: "IP packets are counted by task"}.
		without(tried, "bytes and packets that a task received and sent", enable)
}

// checkChildren checks /proc/PID/task/TID/children, which lists the processes of a task without a cgroup.
func checkChildren(host Host) Check {
	return Check{Name: "process tree", State: Works, Found: "/proc/PID/task/TID/children"}.
		without(kernel.HasChildrenFiles(host.FS), "processes without a cgroup, at low cost", "a kernel with CONFIG_PROC_CHILDREN=y")
}

// without is the check if err is nil; else what is missing because of it, and how to enable it.
func (c Check) without(err error, costs, enable string) Check {
	if err != nil {
		c.State, c.Found, c.Costs, c.Enable = Partly, err.Error(), costs, enable
	}
	return c
}

// checkOwnProcess checks the files of a process that need more permission, or a kernel option.
func checkOwnProcess(host Host) Check {
	c := Check{Name: "I/O and PSS", State: Works, Found: "/proc/PID/io and /proc/PID/smaps_rollup are readable"}
	for _, file := range []struct{ name, costs, enable string }{
		{"io", "bytes read and written without a cgroup", "a kernel with CONFIG_TASK_IO_ACCOUNTING=y"},
		{"smaps_rollup", "memory with shared pages divided among processes (PSS)", "Linux 4.14 or newer with CONFIG_PROC_PAGE_MONITOR=y"},
	} {
		if _, err := os.ReadFile(filepath.Join(host.FS.Proc, "self", file.name)); err != nil {
			c.State, c.Found, c.Costs, c.Enable = Partly, err.Error(), file.costs, file.enable
		}
	}
	return c
}

// Capabilities, capabilities(7).
const (
	capDACOverride = 1
	capSysPtrace   = 19
	capSysResource = 24
)

// checkOtherUsers checks access to processes that change their user: io and smaps_rollup require the same user or
// CAP_SYS_PTRACE, proc(5). Yama only restricts attaching.
func checkOtherUsers(host Host) Check {
	c := Check{Name: "processes of other users", State: Works, Found: "I/O and PSS are readable (CAP_SYS_PTRACE)"}
	if !capable(host, capSysPtrace) {
		c.State, c.Found = Partly, "I/O and PSS are not readable: no CAP_SYS_PTRACE"
		c.Costs = "I/O and PSS of processes that change their user, such as sudo"
		c.Enable = grant("CAP_SYS_PTRACE", "sudo setcap cap_sys_ptrace+ep \"$(command -v tacho)\"")
	}
	return c
}

// checkOOMScore checks the protection of executors from the OOM killer, which needs CAP_SYS_RESOURCE, proc(5).
func checkOOMScore(host Host) Check {
	c := Check{Name: "OOM protection", State: Works, Found: "executors are protected from the OOM killer (CAP_SYS_RESOURCE)"}
	if lack := "no CAP_SYS_RESOURCE"; !capable(host, capSysResource) || host.namespaced("user") {
		if host.namespaced("user") {
			lack += " outside this user namespace"
		}
		c.State, c.Found = Partly, "executors are not protected from the OOM killer: "+lack
		c.Costs = "the record of a run if the machine runs out of memory and the OOM killer chooses its executor"
		c.Enable = grant("CAP_SYS_RESOURCE", "sudo tacho run -- COMMAND")
	}
	return c
}

// grant returns how to get a capability: root without it is in a container.
func grant(capability, command string) string {
	if os.Geteuid() == 0 {
		return "start the container with " + capability + ", e.g. docker run --cap-add " + strings.TrimPrefix(capability, "CAP_")
	}
	return command
}

// capable reports whether this process has an effective capability.
func capable(host Host, capability uint) bool {
	set, err := strconv.ParseUint(statusField(host, "CapEff"), 16, 64)
	return err == nil && set&(1<<capability) != 0
}
