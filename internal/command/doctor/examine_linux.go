// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/procstats/exits"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
)

// Examine checks what can be measured. It creates the cgroup that a task would get and a directory, and removes both.
func Examine(host Host) (*Report, error) {
	r := &Report{}
	r.Checks = append(r.Checks, checkWhere(host), checkKernel(host), checkNamespaces(host), checkHidden(host),
		checkBoot(host), checkRun())
	group, err := cgroup.Create(cgroup.Options{FS: host.FS, ID: fmt.Sprintf("doctor-%d", os.Getpid())})
	if err != nil {
		group = cgroup.None(err.Error())
	}
	r.Notes = group.Notes
	tried := network.Try(host.FS)
	r.Checks = append(r.Checks, checkGroup(host, group)...)
	r.Checks = append(r.Checks,
		checkClone(group), checkSeccomp(host), checkSecurityModule(host, group),
		checkPressure(group), checkPidfd(), checkKmsg(host), checkExits(host, group), checkNetwork(tried, group),
		checkChildren(host), checkOwnProcess(host), checkOtherUsers(host), checkOOMScore(host))
	return r, errors.Join(r.tryCollect(host, group, tried), group.Remove())
}

// tryCollect reads everything once: of the empty cgroup, and of this process in place of a task.
func (r *Report) tryCollect(host Host, group *cgroup.Group, tried error) error {
	dir, err := os.MkdirTemp(paths.TempDir(math.MaxInt), "tacho-doctor-")
	if err != nil {
		return fmt.Errorf("create directory: %w (TMPDIR chooses another one)", err)
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

func checkKernel(host Host) Check {
	k := kernel.OSRelease(host.FS)
	c := works("kernel", "Linux "+k.Text)
	switch {
	case k.Major == 0:
		return c.partly("kernel release unknown", "", "")
	case !k.AtLeast(4, 20):
		return c.partly(c.Found, "pressure, and much of cgroup v2", "Linux 4.20 or newer, better 5.19")
	case !k.AtLeast(5, 19):
		return c.partly(c.Found, "the exact memory peak of cgroup v2", "Linux 5.19 or newer")
	}
	return c
}

// What is lost without a system call.
const (
	costsOfNoClone = "exact memory: a few pages of the executor are charged to the task"
	costsOfNoPidfd = "signals that cannot reach a wrong process"
)

// checkClone checks CLONE_INTO_CGROUP, clone3(2): the process is charged to its cgroup from the first instruction.
func checkClone(group *cgroup.Group) Check {
	c := works("start in the cgroup", "by descriptor, clone3(2)")
	switch {
	case !group.Exists():
		return c.missing("no cgroup", "exact totals from the first instruction", "")
	case group.V2 == "":
		return works(c.Name, "by a thread that forks in the cgroup (v1)")
	}
	err := cgroup.CanClone()
	if err != nil {
		err = fmt.Errorf("the executor enters the cgroup to fork: %w", err)
	}
	return c.unless(err, costsOfNoClone, "Linux 5.7 or newer, without a system call filter that denies clone3")
}

// checkPressure reads what a task's samples have: the pressure of its cgroup, which only version 2 has.
func checkPressure(group *cgroup.Group) Check {
	const costs = "what a task waited for"
	file := filepath.Join(group.V2, "cpu.pressure")
	c := works("pressure (PSI)", "cgroup v2, "+filepath.Base(file))
	if group.V2 == "" {
		return c.missing("no cgroup of version 2", costs, mountGroups)
	}
	if _, err := os.ReadFile(file); err != nil {
		return c.missing(err.Error(), costs, "boot with psi=1 (the kernel needs CONFIG_PSI=y)")
	}
	return c
}

func checkPidfd() Check {
	return works("pidfd", "processes are referred to by file descriptor, pidfd_open(2)").
		unless(process.Supported(), costsOfNoPidfd, "Linux 5.3 or newer")
}

// checkKmsg checks the kernel log, which names the victim of an OOM kill. Opening does not block; reading would.
func checkKmsg(host Host) Check {
	path := filepath.Join(host.Root, "dev/kmsg")
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return works("kernel log", path+" is readable").
		unless(err, "the victim of an OOM kill", "sysctl -w kernel.dmesg_restrict=0, or run as root")
}

// checkExits loads and tries the programs that count ended processes, and removes them.
func checkExits(host Host, group *cgroup.Group) Check {
	reader, err := exits.Open(host.FS)
	if err == nil {
		err = errors.Join(reader.Try(), reader.Close())
	}
	enable := ""
	if err == nil && (group.V2 == "" || !group.Encloses()) {
		err, enable = errNoGroup, mountGroups
	}
	return works("exit records", "every process that ends is counted, by command").
		unless(err, "who used it, of processes that are too short to be sampled", enable)
}

// errNoGroup is the reason why working programs do not watch a task.
var errNoGroup = errors.New("a task has no cgroup of version 2 to itself here")

const mountGroups = "a mounted cgroup v2, which may be beside version 1: mount -t cgroup2 none DIR"

// checkNetwork reports the result of counting a packet that this process sent to itself.
func checkNetwork(tried error, group *cgroup.Group) Check {
	enable := ""
	switch {
	case errors.Is(tried, unix.ENETUNREACH):
		enable = "ip link set lo up, in this network namespace"
	case tried == nil && (group.V2 == "" || !group.Encloses()):
		tried, enable = errNoGroup, mountGroups
	}
	return works("network", "IP packets are counted by task").
		unless(tried, "bytes and packets that a task received and sent", enable)
}

// checkChildren checks /proc/PID/task/TID/children, which lists the processes of a task without a cgroup.
func checkChildren(host Host) Check {
	return works("process tree", "/proc/PID/task/TID/children").unless(kernel.HasChildrenFiles(host.FS),
		"processes without a cgroup", "a kernel with CONFIG_PROC_CHILDREN=y")
}

// checkOwnProcess checks the files of a process that need more permission, or a kernel option.
func checkOwnProcess(host Host) Check {
	read := func(name string) error {
		_, err := os.ReadFile(filepath.Join(host.FS.Proc, "self", name))
		return err
	}
	return works("I/O and PSS", "/proc/PID/io and /proc/PID/smaps_rollup are readable").
		unless(read("io"), "bytes read and written without a cgroup", "a kernel with CONFIG_TASK_IO_ACCOUNTING=y").
		unless(read("smaps_rollup"), "memory with shared pages divided among processes (PSS)",
			"Linux 4.14 or newer with CONFIG_PROC_PAGE_MONITOR=y")
}

// checkOtherUsers checks access to processes that change their user: io and smaps_rollup require the same user or
// CAP_SYS_PTRACE, proc(5). Yama only restricts attaching.
func checkOtherUsers(host Host) Check {
	c := works("processes of other users", "I/O and PSS are readable (CAP_SYS_PTRACE)")
	if kernel.Capable(host.FS, unix.CAP_SYS_PTRACE) {
		return c
	}
	return c.partly("I/O and PSS are not readable: no CAP_SYS_PTRACE",
		"I/O and PSS of processes that change their user, such as sudo",
		grant("CAP_SYS_PTRACE", `sudo setcap cap_sys_ptrace+ep "$(command -v tacho)"`))
}

// checkOOMScore checks the protection of executors from the OOM killer, which needs CAP_SYS_RESOURCE, proc(5).
func checkOOMScore(host Host) Check {
	c := works("OOM protection", "executors are protected from the OOM killer (CAP_SYS_RESOURCE)")
	lack := "no CAP_SYS_RESOURCE"
	if host.namespaced("user") {
		lack += " outside this user namespace"
	} else if kernel.Capable(host.FS, unix.CAP_SYS_RESOURCE) {
		return c
	}
	return c.partly("executors are not protected from the OOM killer: "+lack,
		"the record of a run if the machine runs out of memory and the OOM killer chooses its executor",
		grant("CAP_SYS_RESOURCE", "sudo tacho run -- COMMAND"))
}

// grant says how to get a capability: root without it is in a container.
func grant(capability, command string) string {
	if os.Geteuid() == 0 {
		return fmt.Sprintf("start the container with %s, e.g. docker run --cap-add %s", capability,
			strings.TrimPrefix(capability, "CAP_"))
	}
	return command
}

// runLimit is how long a task may take that only prints a version.
const runLimit = 30 * time.Second

// checkRun runs this program as a task, which finds what no other check knows of.
func checkRun() Check {
	if err := tryRun(); err != nil {
		return works(nameOfRun, "").missing(err.Error(), "everything: no task is started", "")
	}
	return works(nameOfRun, "a task was started, and its end recorded")
}

// tryRun starts a task as tacho run does, without a cgroup, which others check.
func tryRun() error {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	id := fmt.Sprintf("doctor-%d", os.Getpid())
	dir, err := client.FindRuntimeDir("", len(id), client.CheckRoom)
	if err != nil {
		return err
	}
	const self = "/proc/self/exe" // valid even after an upgrade has replaced the file
	c, err := client.Start(ctx, client.Options{RuntimeDir: dir, ID: id})
	if err != nil {
		return err
	}
	_, err = c.Launch(ctx, &proto.LaunchRequest{
		Id: id, Command: self, Argv0: "tacho", Args: []string{"version"},
		Stdio:        &proto.Stdio{Mode: proto.Stdio_MODE_NULL},
		Cgroup:       &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_NONE},
		ExitWithTask: true, // else it stays if this process is killed meanwhile
	})
	if err != nil {
		return errors.Join(err, c.Abandon())
	}
	exit, _, err := c.Wait(ctx)
	if err == nil {
		err = c.AwaitExit(ctx) // before the first process of a PID namespace ends, and it with that, its folder left
	}
	if err == nil && exit.GetCode() != 0 {
		err = fmt.Errorf("%s version: %s", self, exit.GetSummary())
	}
	return errors.Join(err, c.Close())
}
