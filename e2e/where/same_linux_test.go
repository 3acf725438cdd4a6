// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package where

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/confine"
	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestSameAsOutside holds that a command can do under tacho what it can do without, in groups that permit more and less.
func TestSameAsOutside(t *testing.T) {
	needRoot(t)
	_, cpuset := controllerMount(t, "cpuset")
	top, _ := os.ReadFile(filepath.Join(cpuset, "cpuset.mems.effective"))
	if len(top) == 0 {
		top = []byte("0")
	}
	mems := strings.TrimSpace(string(top))
	for _, place := range []struct {
		name string
		// groups has the files of a group in each hierarchy, by the name of a v1 controller.
		groups map[string][]string
		// unified has the files of a group of version 2, where that has the controllers.
		unified []string
	}{
		{"here", nil, nil},
		{"few processes", map[string][]string{"pids": {"pids.max=80"}}, []string{"pids.max=80"}},
		{"one CPU", map[string][]string{"cpuset": {"cpuset.cpus=0", "cpuset.mems=" + mems}}, []string{"cpuset.cpus=0"}},
		{"a partition of CPUs", nil, []string{"cpuset.cpus=0", "cpuset.cpus.partition=root"}},
		{"a real-time budget", map[string][]string{"cpu": {"cpu.rt_runtime_us=1000"}}, nil},
		{"no real-time budget", map[string][]string{"cpu": nil}, []string{"cpu.weight=50"}},
		{"a quota", map[string][]string{"cpu": {"cpu.cfs_quota_us=150000"}}, []string{"cpu.max=150000 100000"}},
		{"few devices", map[string][]string{"devices": {
			"devices.deny=a", "devices.allow=c 1:3 rwm", "devices.allow=c 1:9 r", "devices.allow=c 5:* rw", "devices.allow=c 136:* rw",
		}}, nil},
		{"no huge pages", map[string][]string{"hugetlb": {"hugetlb.2MB.limit_in_bytes=0"}}, []string{"hugetlb.2MB.max=0"}},
		{"little memory", map[string][]string{"memory": {"memory.limit_in_bytes=268435456"}}, []string{"memory.max=268435456"}},
		{"threads", nil, []string{"cgroup.type=threaded"}},
		{"groups of its own", nil, []string{"cgroup.subtree_control="}},
		{"frozen before", map[string][]string{"freezer": {"freezer.state=THAWED"}}, []string{"cgroup.freeze=0"}},
		{"a network class", map[string][]string{"net_cls": {"net_cls.classid=65537"}}, nil},
	} {
		t.Run(place.name, func(t *testing.T) {
			groups := place.groups
			if isPureV2() {
				groups = map[string][]string{}
				if place.unified != nil {
					groups[""] = place.unified
				}
			} else if place.unified != nil && place.groups == nil {
				groups = map[string][]string{"": place.unified}
			}
			if len(groups) == 0 && place.name != "here" {
				t.Skip("no hierarchy for it is mounted here")
			}
			folders := makeGroups(t, groups)
			outside, inside := able(t, folders, false), able(t, folders, true)
			for _, name := range slices.Sorted(maps.Keys(outside)) {
				if inside[name] != outside[name] {
					t.Errorf("%s: outside %s, under tacho %s", name, outside[name], inside[name])
				}
			}
			if len(outside) < 30 || len(outside) != len(inside) {
				t.Errorf("%d and %d things were tried", len(outside), len(inside))
			}
		})
	}
}

// controllerMount returns the version and the mount of a controller; 0 without one.
func controllerMount(t *testing.T, controller string) (version int, point string) {
	for _, m := range testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t) {
		if slices.Contains(m.Controllers, controller) || controller == "" && m.Version == 2 {
			return m.Version, m.Point
		}
	}
	return 0, ""
}

// makeGroups makes a group in each hierarchy and writes its files. What this kernel does not have skips the test.
func makeGroups(t *testing.T, groups map[string][]string) (folders []string) {
	for controller, files := range groups {
		version, point := controllerMount(t, controller)
		if version == 0 || version == 2 && controller != "" {
			t.Skipf("no hierarchy of version 1 has %s here", controller)
		}
		folder := filepath.Join(point, fmt.Sprintf("same-%d", os.Getpid()))
		testkit.Must(t, os.Mkdir(folder, 0o755))
		t.Cleanup(func() { testkit.NoError(t, os.Remove(folder)) })
		for _, file := range files {
			name, value, _ := strings.Cut(file, "=")
			if kind, _, _ := strings.Cut(name, "."); version == 2 && kind != "cgroup" {
				_ = os.WriteFile(filepath.Join(point, "cgroup.subtree_control"), []byte("+"+kind), 0) // or it is missing below
			}
			err := os.WriteFile(filepath.Join(folder, name), []byte(value), 0)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				t.Skipf("this kernel has no %s", name)
			}
			testkit.Must(t, err)
		}
		folders = append(folders, folder)
	}
	return folders
}

// able returns what a process in some groups can do, under tacho or without, by the names of abilities.
func able(t *testing.T, folders []string, under bool) map[string]string {
	p := rig.NewPlace(t, rig.Self())
	self := p.Path("self")
	testkit.Must(t, os.WriteFile(self, testkit.Value(os.ReadFile("/proc/self/exe"))(t), 0o755))
	cmd := p.Command(t.Context(), self)
	if under {
		cmd = p.Run(t.Context(), "--", self)
	}
	cmd.Env = append(cmd.Env, taskVariable+"=able")
	testkit.Must(t, confine.Wrap(cmd, self, confine.Options{Cgroups: folders}))
	out := rig.Capture(t, cmd)
	if out.Code != 0 {
		t.Fatalf("exit code %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	all := map[string]string{}
	for line := range strings.Lines(out.Stdout) {
		if name, result, found := strings.Cut(strings.TrimSpace(line), ": "); found {
			all[name] = result
		}
	}
	return all
}

// printAbilities says what this process can do.
func printAbilities() {
	runtime.LockOSThread()
	try := func(name string, err error) { fmt.Printf("%s: %v\n", name, err) }
	for policy, name := range map[uint32]string{
		unix.SCHED_FIFO: "FIFO", unix.SCHED_RR: "RR", unix.SCHED_BATCH: "batch", unix.SCHED_IDLE: "idle", unix.SCHED_DEADLINE: "deadline",
	} {
		a := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}
		switch policy {
		case unix.SCHED_FIFO, unix.SCHED_RR:
			a.Priority = 1
		case unix.SCHED_DEADLINE:
			a.Runtime, a.Deadline, a.Period = 1e6, 1e9, 1e9
		}
		try("scheduling "+name, unix.SchedSetAttr(0, &a, 0))
		try("scheduling back from "+name, unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0))
	}
	tryCPUs(try)
	tryMemory(try)
	tryDevices(try)
	tryNamespaces(try)
	tryGroups(try)
	for _, nice := range []int{19, -5, 0} {
		try(fmt.Sprint("nice ", nice), unix.Setpriority(unix.PRIO_PROCESS, 0, nice))
	}
	for class, name := range []string{1: "real-time", 2: "best-effort", 3: "idle"} {
		if class > 0 {
			_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, 0, uintptr(class)<<13)
			try("ionice "+name, errno)
		}
	}
	for resource, name := range map[int]string{unix.RLIMIT_NOFILE: "nofile", unix.RLIMIT_MEMLOCK: "memlock", unix.RLIMIT_RTPRIO: "rtprio"} {
		var limit unix.Rlimit
		try("limit of "+name, unix.Getrlimit(resource, &limit))
		limit.Max += min(limit.Max/2, unix.RLIM_INFINITY-limit.Max)
		try(fmt.Sprint("limit of ", name, " ", limit), unix.Setrlimit(resource, &limit))
	}
	try("oom_score_adj", os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0))
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0}, 0, -1, -1, 0)
	try("perf_event_open", errors.Join(err, unix.Close(fd)))
	try("subreaper", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	try("processes", children(20))
}

func tryCPUs(try func(string, error)) {
	var all unix.CPUSet
	try("CPUs", unix.SchedGetaffinity(0, &all))
	for cpu := range max(2, runtime.NumCPU()) {
		var one unix.CPUSet
		one.Set(cpu)
		try(fmt.Sprint("CPU ", cpu, " of ", all.Count()), unix.SchedSetaffinity(0, &one))
	}
	try("all CPUs", unix.SchedSetaffinity(0, &all))
}

func tryMemory(try func(string, error)) {
	memory, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	try("memory", err)
	try("mlock", unix.Mlock(memory))
	_, err = unix.Mmap(-1, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB)
	try("huge page", err)
	_, _, errno := unix.Syscall(unix.SYS_SET_MEMPOLICY, 2, 0, 0)
	try("memory policy", errno)
	_, err = unix.MemfdCreate("x", 0)
	try("memfd_create", err)
}

func tryDevices(try func(string, error)) {
	for _, name := range []string{"null", "zero", "full", "random", "tty", "kmsg", "fuse", "net/tun", "kvm", "ptmx", "loop-control", "mem"} {
		f, err := os.OpenFile("/dev/"+name, os.O_RDWR, 0)
		if err == nil {
			err = f.Close()
		}
		try("open /dev/"+name, err)
	}
	for name, number := range map[string]int{"null": 3, "zero": 5, "random": 8} {
		err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, uint32(number)))) //nolint:gosec // small
		try("mknod "+name, err)
	}
	_, err := os.ReadFile("null")
	try("read what mknod made", err)
}

func tryNamespaces(try func(string, error)) {
	for name, flag := range map[string]uintptr{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "PID": unix.CLONE_NEWPID, "network": unix.CLONE_NEWNET,
		"UTS": unix.CLONE_NEWUTS, "IPC": unix.CLONE_NEWIPC, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		child := exec.Command("/proc/self/exe")
		child.Env = []string{taskVariable + "=child"}
		if name == "mount" {
			child.Env = []string{taskVariable + "=mounts"}
		}
		var out bytes.Buffer
		child.Stdout = &out
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
		try("namespace of "+name, child.Run())
		fmt.Print(out.String())
	}
	child := exec.Command("/proc/self/exe")
	child.Env = []string{taskVariable + "=child"}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	try("session", child.Run())
}

// printMounts says what can be mounted.
func printMounts() {
	try := func(name string, err error) { fmt.Printf("mount %s: %v\n", name, err) }
	try("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for _, kind := range []string{"tmpfs", "proc", "sysfs", "cgroup2", "mqueue", "devpts"} {
		try(kind, unix.Mount("none", "/mnt", kind, 0, ""))
	}
	for _, m := range kernelMounts() {
		if m.Version == 1 {
			try("cgroup "+strings.Join(m.Controllers, ","), unix.Mount("none", "/mnt", "cgroup", 0, strings.Join(m.Controllers, ",")))
		}
	}
}

func kernelMounts() []kernel.CgroupMount {
	mounts, _ := kernel.CgroupMounts(kernel.HostFS())
	return mounts
}

// tryGroups makes a group below each own one, and has a child in it.
func tryGroups(try func(string, error)) {
	own, err := kernel.FindCgroup(kernel.HostFS(), os.Getpid())
	try("own groups", err)
	groups := map[string]string{}
	maps.Copy(groups, own.V1)
	if own.V2 != "" {
		groups["v2"] = own.V2
	}
	for controller, folder := range groups {
		below := filepath.Join(folder, "below")
		err := os.Mkdir(below, 0o755)
		if controller == "cpuset" {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				text, _ := os.ReadFile(filepath.Join(folder, file))
				err = errors.Join(err, os.WriteFile(filepath.Join(below, file), text, 0))
			}
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte("0"), 0))
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0))
		text := fmt.Sprint(errors.Join(err, os.Remove(below)))
		try("a group of "+controller, errors.New(strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), folder, "")))
	}
}

// children starts processes that live at the same time.
func children(n int) (err error) {
	var all []*exec.Cmd
	for range n {
		c := exec.Command("sleep", "10")
		if err = c.Start(); err != nil {
			err = fmt.Errorf("%d: %w", len(all), err)
			break
		}
		all = append(all, c)
	}
	for _, c := range all {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	return err
}
