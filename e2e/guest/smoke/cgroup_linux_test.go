// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package smoke

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

const root = "/sys/fs/cgroup"

// makeCgroup makes a cgroup for the test in the hierarchy of a v1 controller, in "unified", or in
// the only one (""). Where the user may not, and should not, it skips the test.
func makeCgroup(t *testing.T, hierarchy string) string {
	t.Helper()
	own := ""
	for line := range strings.Lines(read(t, "/proc/self/cgroup")) {
		// hierarchy-ID:controller-list:cgroup-path
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); f[1] == strings.TrimPrefix(hierarchy, "unified") {
			own = f[2]
		}
	}
	if own == "" {
		t.Fatalf("no %q in /proc/self/cgroup", hierarchy)
	}
	// From the root stay in it; from the leaf of a delegated cgroup go up.
	dir := filepath.Join(root, hierarchy, filepath.Dir(own), strings.ReplaceAll(t.Name(), "/", "-"))
	err := os.Mkdir(dir, 0o755)
	if os.Getuid() != 0 && own == "/" {
		if !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("make a cgroup without privilege: %v, want %v", err, fs.ErrPermission)
		}
		t.Skip("this user may not make cgroups, as it should be without delegation")
	}
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.NoError(t, os.Remove(dir)) })
	return dir
}

func TestControllers(t *testing.T) {
	g := here(t)
	if g.layout == "v2" {
		got := strings.Fields(read(t, root+"/cgroup.subtree_control"))
		for _, name := range []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"} {
			if !slices.Contains(got, name) {
				t.Errorf("no %s in the root's cgroup.subtree_control: %s", name, got)
			}
		}
		return
	}
	want := []string{"blkio", "cpu", "cpuacct", "freezer", "pids"}
	onV2 := "cpuset memory" // Debian's later kernels are built without the v1 side of these
	if !g.since(6, 12) {
		want, onV2 = append(want, "cpuset", "memory"), ""
	}
	for _, name := range want {
		if _, err := os.Stat(filepath.Join(root, name, "cgroup.procs")); err != nil {
			t.Error(err)
		}
	}
	if g.layout == "hybrid" {
		testkit.Equal(t, strings.TrimSpace(read(t, root+"/unified/cgroup.controllers")), onV2, "unified has the controllers")
	} else if strings.Contains(read(t, "/proc/mounts"), " cgroup2 ") {
		t.Error("v2 is mounted too")
	}
}

func TestMemoryLimit(t *testing.T) {
	g := here(t)
	hierarchy, limit, events := "", "memory.max", "memory.events"
	if g.layout != "v2" {
		hierarchy, limit, events = "memory", "memory.limit_in_bytes", "memory.oom_control"
		if _, err := os.Stat(filepath.Join(root, hierarchy)); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("kernel %s has no v1 memory controller", g.series)
		}
	}
	dir := makeCgroup(t, hierarchy)
	write(t, filepath.Join(dir, limit), strconv.Itoa(memoryLimit))

	eater := copyOf(roleEat)
	eater.Env = append(eater.Env, cgroupVariable+"="+dir)
	text, err := eater.CombinedOutput()
	if !killed(err) {
		t.Errorf("child over its limit: %v, want SIGKILL\n%s", err, text)
	}
	testkit.Equal(t, value(t, filepath.Join(dir, events), "oom_kill"), 1, "%s: oom_kill", events)
}

// TestHierarchy asserts what limits of v1 mean to the children of a group.
func TestHierarchy(t *testing.T) {
	g := here(t)
	text, err := os.ReadFile(filepath.Join(root, "memory/memory.use_hierarchy"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no memory controller of v1")
	}
	testkit.Must(t, err)
	want := "1\n"
	if g.layout == "flat" && !g.since(5, 11) {
		want = "0\n"
	}
	testkit.Equal(t, string(text), want, "memory.use_hierarchy at the root")
}

func TestCgroupKill(t *testing.T) {
	g := here(t)
	hierarchy := ""
	switch g.layout {
	case "v1", "flat":
		t.Skip("cgroup.kill is v2's")
	case "hybrid":
		hierarchy = "unified"
	}
	dir := makeCgroup(t, hierarchy)
	_, err := os.Stat(dir + "/cgroup.kill")
	testkit.Equal(t, err == nil, g.since(5, 14), "cgroup.kill is there")
	folder := testkit.Value(os.Open(dir))(t)
	defer folder.Close()

	var sleepers []*exec.Cmd
	for range 5 {
		cmd := copyOf(roleSleep)
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
		testkit.Must(t, cmd.Start())
		sleepers = append(sleepers, cmd)
	}
	if got := len(strings.Fields(read(t, dir+"/cgroup.procs"))); got != len(sleepers) {
		t.Errorf("%d processes in the cgroup, want %d", got, len(sleepers))
	}
	if g.since(5, 14) {
		write(t, dir+"/cgroup.kill", "1")
	} else {
		for _, cmd := range sleepers {
			testkit.NoError(t, cmd.Process.Kill())
		}
	}
	for _, cmd := range sleepers {
		if err := cmd.Wait(); !killed(err) {
			t.Errorf("sleeper: %v, want SIGKILL", err)
		}
	}
	testkit.Equal(t, value(t, dir+"/cgroup.events", "populated"), 0, "populated")
}

func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
