// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats/kernel"
)

// hostWith is a /proc with the given mounts.
func hostWith(t *testing.T, mountinfo string) kernel.FS {
	t.Helper()
	proc := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(proc, "self"), 0o755))
	must(t, os.WriteFile(filepath.Join(proc, "self", "mountinfo"), []byte(mountinfo), 0o600))
	return kernel.FS{Proc: proc}
}

// mountPoint makes a directory that a mountinfo line can name: mounts that cannot be reached are left out.
func mountPoint(t *testing.T, dirs ...string) string {
	t.Helper()
	point := t.TempDir()
	for _, dir := range dirs {
		must(t, os.MkdirAll(filepath.Join(point, dir), 0o755))
	}
	return point
}

func TestPlacement(t *testing.T) {
	v2 := mountPoint(t, "nomad.slice/share.slice/x.web.scope", "own")
	pure := hostWith(t, "30 23 0:26 / "+v2+" rw,nosuid - cgroup2 cgroup2 rw\n")
	several := hostWith(t, "30 23 0:26 / "+v2+" rw,nosuid - cgroup2 cgroup2 rw\n"+
		"33 23 0:26 / "+mountPoint(t, "other")+" rw - cgroup2 none rw\n34 23 0:29 / "+mountPoint(t, "vpn")+" rw - cgroup none rw,net_cls\n")
	cpuset, memory := mountPoint(t, "nomad"), mountPoint(t, "own")
	hybrid := hostWith(t, "31 23 0:27 / "+cpuset+" rw - cgroup cgroup rw,cpuset\n"+
		"32 23 0:28 / "+memory+" rw - cgroup cgroup rw,memory\n")
	task := func(group string) *TaskConfig {
		return &TaskConfig{Resources: &Resources{Linux: &LinuxResources{CpusetCgroup: group}}}
	}
	const group = "nomad.slice/share.slice/x.web.scope"
	type place = proto.CgroupPlacement
	auto, given := proto.CgroupPlacement_MODE_AUTO, proto.CgroupPlacement_MODE_GIVEN
	made, ownMemory := &place{Mode: given, V2: v2 + "/" + group}, map[string]string{"memory": "own"}
	for _, test := range []struct {
		name string
		host kernel.FS
		task *TaskConfig
		own  ConfigBlock
		want *place
	}{
		{"nothing said", pure, &TaskConfig{}, ConfigBlock{}, &place{Mode: auto, Parent: "/tasks"}},
		{"v2, by the host", pure, task(group), ConfigBlock{}, made},
		{"v2, the whole path", pure, task(v2 + "/" + group), ConfigBlock{}, made},
		{"v2, mounted twice, and a v1 hierarchy of others", several, task(group), ConfigBlock{}, made},
		{
			"v2, not made", pure, task("nomad.slice/share.slice/y.web.scope"),
			ConfigBlock{},
			&place{Mode: auto, Parent: "/tasks"},
		},
		{
			"v1", hybrid, task("/nomad"),
			ConfigBlock{},
			&place{Mode: auto, Parent: "/tasks", V1: map[string]string{"cpuset": cpuset + "/nomad"}},
		},
		{"v1, not made", hybrid, task("/gone"), ConfigBlock{}, &place{Mode: auto, Parent: "/tasks"}},
		{"v2 override", pure, task(group), ConfigBlock{CgroupV2: "own"}, &place{Mode: given, V2: v2 + "/own", Shared: true}},
		{
			"nowhere but below the mount", pure, &TaskConfig{},
			ConfigBlock{CgroupV2: "../../own"},
			&place{Mode: given, V2: v2 + "/own", Shared: true},
		},
		{
			"v1 override", hybrid, task("/nomad"),
			ConfigBlock{CgroupV1: ownMemory},
			&place{Mode: given, V1: map[string]string{"memory": memory + "/own"}, Shared: true},
		},
		{"v2 override, not mounted", hybrid, &TaskConfig{}, ConfigBlock{CgroupV2: "own"}, nil},
		{"v1 override, not mounted", pure, &TaskConfig{}, ConfigBlock{CgroupV1: ownMemory}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := placement(test.host, test.task, &test.own, Config{CgroupParent: "/tasks"})
			if (err == nil) != (test.want != nil) {
				t.Fatal(err)
			}
			testkit.Diff(t, "placement", test.want, got, protocmp.Transform())
		})
	}
}

func TestLimits(t *testing.T) {
	memory, shares, cores := int64(1<<20), int64(500), 1.5
	got := limits(&Resources{Linux: &LinuxResources{
		MemoryLimitBytes: memory, CPUShares: shares, CPUPeriod: 100_000, CPUQuota: 150_000, CpusetCPUs: "0-1",
	}})
	want := &proto.Limits{MemoryMaxBytes: &memory, CpuShares: &shares, CpuCores: &cores, Cpuset: "0-1"}
	testkit.Diff(t, "limits", want, got, protocmp.Transform())
	if got := limits(&Resources{Linux: &LinuxResources{}}); got.MemoryMaxBytes != nil || got.CpuShares != nil {
		t.Errorf("limits of nothing: %v", got)
	}
	for reserved, want := range map[int64]int64{1: 2, 2: 2, 262_144: 262_144, 300_000: 262_144} {
		if got := limits(&Resources{Linux: &LinuxResources{CPUShares: reserved}}); got.GetCpuShares() != want {
			t.Errorf("%d MHz reserved: %d shares, want %d", reserved, got.GetCpuShares(), want)
		}
	}
	if got := limits(nil); got != nil {
		t.Errorf("limits of no resources: %v", got)
	}
}

func TestStdio(t *testing.T) {
	task := &TaskConfig{Name: "web", AllocDir: "/alloc", StdoutPath: "/fifo1", StderrPath: "/fifo2"}
	config := DefaultConfig()
	want := &proto.Stdio{Mode: proto.Stdio_MODE_LOGS, Logs: &proto.Logs{
		Dir: "/alloc/alloc/logs", Prefix: "web", MaxFileBytes: 5 << 20, MaxFiles: 3,
	}}
	if d := cmp.Diff(want, stdio(task, Settings{MaxFiles: 3, MaxFileBytes: 5 << 20}, config), protocmp.Transform()); d != "" {
		t.Errorf("by the executor (-want +got):\n%s", d)
	}
	config.LogCollection = LogsByHost
	want = &proto.Stdio{Mode: proto.Stdio_MODE_PATHS, StdoutPath: "/fifo1", StderrPath: "/fifo2"}
	testkit.Diff(t, "by the host", want, stdio(task, Settings{}, config), protocmp.Transform())
	config.LogCollection = LogsByExecutor
	task.StdoutPath = os.DevNull
	if got := stdio(task, Settings{}, config); got.GetMode() != proto.Stdio_MODE_NULL {
		t.Errorf("logs switched off: %v", got)
	}
}

func TestExecutorID(t *testing.T) {
	long := &TaskConfig{
		ID: strings.Repeat("x", 200), Name: strings.Repeat("ä", 40) + "/..", AllocID: "11111111-2222-3333-4444-555555555555",
	}
	id := executorID(long)
	if len(id) > 48 || strings.ContainsAny(id, "/.ä") || !strings.HasPrefix(id, "11111111-") {
		t.Errorf("id %q", id)
	}
	if other := executorID(&TaskConfig{ID: "y", Name: long.Name, AllocID: long.AllocID}); other == id {
		t.Error("two tasks have one id")
	}
	if id := executorID(&TaskConfig{ID: "x"}); id == "" || strings.HasPrefix(id, "-") {
		t.Errorf("id of a task without names: %q", id)
	}
}

func TestFindCommand(t *testing.T) {
	dir := mountPoint(t, "local")
	for _, name := range []string{"local/tool", "script"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	t.Setenv("PATH", dir)
	for _, test := range []struct {
		command string
		hasPath bool
		want    string
	}{
		{"/bin/true", true, "/bin/true"},
		{"tool", true, dir + "/local/tool"},
		{"script", true, dir + "/script"},
		{"local/tool", true, dir + "/local/tool"},
		{"nothing", true, "nothing"},
		{"nothing", false, "nothing"},
	} {
		testkit.Equal(t, findCommand(test.command, dir, test.hasPath), test.want, "%s", test.command)
	}
	testkit.Equal(t, findCommand("script", "", false), dir+"/script", "by this process's PATH")
}

func TestIDRanges(t *testing.T) {
	ranges := testkit.Value(parseIDRanges("denied_host_uids", " 0, 10-15 ,22,"))(t)
	for id, want := range map[uint32]bool{0: true, 1: false, 10: true, 15: true, 16: false, 22: true} {
		if ranges.Has(id) != want {
			t.Errorf("%d: %t", id, !want)
		}
	}
	for _, list := range []string{"x", "1-", "-1", "5-2", "1-2-3", "4294967296"} {
		if ranges, err := parseIDRanges("denied_host_uids", list); err == nil {
			t.Errorf("%q: %v", list, ranges)
		}
	}
	const want = `denied_host_uids: invalid range deniedHostUIDs "5-1": lower bound cannot be greater than upper bound`
	if _, err := parseIDRanges("denied_host_uids", "5-1"); err == nil || err.Error() != want || !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestParseSignal(t *testing.T) {
	for _, name := range []string{"SIGTERM", "term", " SigTerm ", "15"} {
		if signal, err := parseSignal(name); err != nil || signal != 15 {
			t.Errorf("%q: %d, %v", name, signal, err)
		}
	}
	for name, want := range map[string]syscall.Signal{
		"SIGRTMIN": 34, "rtmin+3": 37, "SIGRTMIN+0": 34, "SIGRTMIN+30": 64, "SIGRTMAX": 64, "SIGRTMAX-1": 63, "SIGRTMAX-30": 34,
		"SIGPOLL": 29, "SIGIOT": 6, "SIGCLD": 17, "64": 64,
	} {
		if signal, err := parseSignal(name); err != nil || signal != want {
			t.Errorf("%q: %d, %v, want %d", name, signal, err, want)
		}
	}
	for _, name := range []string{
		"", "SIG", "SIGNULL", "0", "65", "15x", "SIGTERM2", "SIGRTMIN+31", "SIGRTMAX-31", "SIGRTMAX-", "SIGRTMIN+", "SIGRTMIN-1",
	} {
		if signal, err := parseSignal(name); err == nil {
			t.Errorf("%q: %d", name, signal)
		}
	}
}

func TestOOMScoreBound(t *testing.T) {
	d := &Tacho{}
	for _, test := range []struct {
		asked, lowest int
		allowed       bool
	}{{0, 0, true}, {500, 0, true}, {-1, 0, false}, {-1000, 0, false}, {-500, -500, true}, {-501, -500, false}, {100, 200, false}} {
		block := &ConfigBlock{Command: "true", OOMScoreAdj: &test.asked}
		config := DefaultConfig()
		config.MinOOMScoreAdj = test.lowest
		request, err := d.launchRequest(&TaskConfig{Name: "t"}, block, config)
		if test.allowed && (err != nil || request.GetOomScoreAdj() != int32(test.asked)) {
			t.Errorf("%d where %d is the lowest: %v, %v", test.asked, test.lowest, request, err)
		}
		if !test.allowed && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "min_oom_score_adj")) {
			t.Errorf("%d where %d is the lowest: %v", test.asked, test.lowest, err)
		}
	}
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
