// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
)

// TestMain is also the executor that is tried, and its task.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "version":
		os.Exit(0)
	case len(os.Args) > 1 && os.Args[1] == "executor":
		syscall.Exit(executor.Main("test")) // with -race, os.Exit sleeps for a second
	}
	os.Exit(m.Run())
}

// hostOf is a host of the given files, by their paths below a root; /proc is in proc.
func hostOf(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return Host{FS: kernel.FS{Proc: filepath.Join(root, "proc")}, Root: root}
}

func TestKernel(t *testing.T) {
	for _, test := range []struct {
		release string
		state   State
		enable  string
	}{
		{"6.12.9-cloud-amd64\n", Works, ""},
		{"5.19.0\n", Works, ""},
		{"5.10.0-8\n", Partly, "Linux 5.19 or newer"},
		{"4.18.0-553.el8\n", Partly, "Linux 4.20 or newer, better 5.19"},
		{"", Partly, ""},
	} {
		host := hostOf(t, map[string]string{"proc/sys/kernel/osrelease": test.release})
		if c := checkKernel(host); c.State != test.state || c.Enable != test.enable {
			t.Errorf("%q: %+v, want %s and %q", test.release, c, test.state, test.enable)
		}
	}
	if c := checkKernel(hostOf(t, nil)); c.State != Partly {
		t.Errorf("no osrelease: %+v, want partly", c)
	}
}

func TestChecksOfAPoorHost(t *testing.T) {
	host := hostOf(t, map[string]string{
		"run/.containerenv": "", fmt.Sprintf("proc/%d/cgroup", os.Getpid()): "0::/\n", "proc/self/mountinfo": "\n", "proc/self/status": "Name:\tx\nCapEff:\t0000000000000000\nThreads:\t1\n",
	})
	if c := checkWhere(host); !strings.Contains(c.Found, "/run/.containerenv") {
		t.Errorf("container: %+v", c)
	}
	none := cgroup.None("")
	for _, c := range []Check{checkNetwork(nil, none), checkNetwork(unix.ENETUNREACH, none), checkPressure(none), checkBoot(host), checkKmsg(host), checkExits(host, none), checkNetwork(network.Try(host.FS), none), checkChildren(host), checkOwnProcess(host), checkOtherUsers(host), checkOOMScore(host)} {
		if c.State == Works || c.Found == "" || c.Costs == "" || c.Enable == "" {
			t.Errorf("%s: %+v, want what is wrong, what it costs and what enables it", c.Name, c)
		}
	}
}

func TestPlacement(t *testing.T) {
	bare := hostOf(t, nil)
	systemd := hostOf(t, map[string]string{"run/systemd/system/x": ""})
	v2 := kernel.CgroupMount{Point: "/sys/fs/cgroup", Version: 2}
	memory := kernel.CgroupMount{Point: "/sys/fs/cgroup/memory", Version: 1, Controllers: []string{"memory"}}
	devices := kernel.CgroupMount{Point: "/sys/fs/cgroup/devices", Version: 1, Controllers: []string{"devices"}}
	readOnly := v2
	readOnly.ReadOnly = true
	none := cgroup.None("mkdir: permission denied")
	partly := &cgroup.Group{Cgroup: procstats.Cgroup{V2: "/x"}, Notes: []string{"no memory controller"}}
	for _, test := range []struct {
		name   string
		host   Host
		mounts []kernel.CgroupMount
		group  *cgroup.Group
		state  State
		enable string
	}{
		{"all is well", bare, []kernel.CgroupMount{v2}, &cgroup.Group{Cgroup: procstats.Cgroup{V2: "/x"}}, Works, ""},
		{"nothing is mounted", bare, nil, none, Missing, "mount -t cgroup2 none /sys/fs/cgroup"},
		{"read-only", bare, []kernel.CgroupMount{readOnly}, none, Missing, "remount,rw"},
		{"no leave to make groups", systemd, []kernel.CgroupMount{v2}, none, Missing, "scope -p Delegate=yes tacho run -- COMMAND"},
		{"controllers are missing", systemd, []kernel.CgroupMount{v2}, partly, Partly, "scope -p Delegate=yes"},
		{"no systemd", bare, []kernel.CgroupMount{v2}, none, Missing, "> /sys/fs/cgroup/tacho/shell/cgroup.procs\" && tacho run --cgroup-parent tacho"},
		{"v1", systemd, []kernel.CgroupMount{memory, devices}, none, Missing, "for d in /sys/fs/cgroup/memory/tacho; do mkdir -p"},
	} {
		c := checkPlacement(test.host, test.mounts, test.group)
		if c.State != test.state || !strings.Contains(c.Enable, test.enable) || (test.enable == "") != (c.Enable == "") {
			t.Errorf("%s: %+v, want %s and %q", test.name, c, test.state, test.enable)
		}
	}
}

func TestController(t *testing.T) {
	host := hostOf(t, map[string]string{
		"run/systemd/system/x":          "",
		"proc/cgroups":                  "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t1\t0\n",
		"cgroup/cgroup.subtree_control": "cpu pids\n",
		"task/cgroup.controllers":       "pids\n",
	})
	v2 := []kernel.CgroupMount{{Point: filepath.Join(host.Root, "cgroup"), Version: 2}}
	v1 := []kernel.CgroupMount{{Point: "/sys/fs/cgroup/cpu", Version: 1, Controllers: []string{"cpu"}}}
	group := &cgroup.Group{Cgroup: procstats.Cgroup{V2: filepath.Join(host.Root, "task")}}
	for _, test := range []struct {
		name       string
		mounts     []kernel.CgroupMount
		controller string
		state      State
		enable     string
	}{
		{"there", v2, "pids", Works, ""},
		{"switched off", v2, "memory", Missing, "boot with cgroup_enable=memory"},
		{"handed on, not to us", v2, "cpu", Missing, "Delegate=yes"},
		{"not handed on", v2, "io", Missing, "echo +io | sudo tee " + filepath.Join(host.Root, "cgroup", "cgroup.subtree_control")},
		{"v1, not mounted", v1, "io", Missing, "sudo mount -t cgroup -o blkio none /sys/fs/cgroup/blkio"},
		{"v1, no leave", v1, "cpu", Missing, "for d in /sys/fs/cgroup/cpu/tacho; do"},
	} {
		c := checkController(host, test.mounts, group, test.controller, "much")
		if c.State != test.state || !strings.Contains(c.Enable, test.enable) || (test.enable == "") != (c.Enable == "") {
			t.Errorf("%s: %+v, want %s and %q", test.name, c, test.state, test.enable)
		}
	}
}

func TestExamineLeavesNothingBehind(t *testing.T) {
	r := testkit.Value(Examine(Host{FS: kernel.HostFS(), Root: "/"}))(t)
	if !r.Usable() || len(r.Checks) < 10 || len(r.Sources) == 0 {
		t.Errorf("%d checks, %d sources, %d measurements", len(r.Checks), len(r.Sources), len(r.Readable))
	}
	if c := r.Checks[slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == nameOfRun })]; c.State != Works {
		t.Errorf("%+v", c)
	}
	for _, name := range r.Readable {
		if reason, absent := r.Absent[name]; absent {
			t.Errorf("%s can be read, and cannot: %s", name, reason)
		}
	}
	home := testkit.Value(kernel.FindCgroup(kernel.HostFS(), os.Getpid()))(t)
	for _, dir := range append([]string{home.V2}, home.V1["memory"], home.V1["cpu"]) {
		if dir == "" {
			continue
		}
		left := filepath.Join(dir, fmt.Sprintf("tacho-doctor-%d", os.Getpid())) // others examine at the same time
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %s (%v)", left, err)
		}
	}
}
