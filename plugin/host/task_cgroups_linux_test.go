// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/driver"
)

// emptyHierarchies makes files of the names that a host's cgroups have.
func emptyHierarchies(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, file := range files {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("0-3\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestPlaceOf(t *testing.T) {
	v2 := emptyHierarchies(t, "cgroup.controllers")
	if p := placeOf(v2, "a", "t", false); p.shown != v2+"/nomad.slice/share/a.t.scope" || p.group.V2 != p.shown {
		t.Errorf("version 2: %+v", p)
	}
	if p := placeOf(v2, "a", "t", true); p.shown != v2+"/nomad.slice/reserve/a.t.scope" {
		t.Errorf("version 2 with cores: %+v", p)
	}
	if p := placeOf(emptyHierarchies(t, "memory/tasks"), "a", "t", false); p != nil {
		t.Errorf("a place %+v without a freezer", p)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root has groups on version 1")
	}
	v1 := emptyHierarchies(t, "freezer/tasks", "cpu/tasks", "memory/tasks", "cpuset/tasks", "cpuset/cpuset.cpus", "cpuset/cpuset.mems")
	p := placeOf(v1, "a", "t", false)
	if p == nil || p.shown != v1+"/cpuset/nomad/share" || len(p.group.V1) != 3 || p.group.V1["freezer"] != v1+"/freezer/nomad/a.t" {
		t.Fatalf("version 1: %+v", p)
	}
	p = placeOf(v1, "a", "t", true)
	if p == nil || p.shown != v1+"/cpuset/nomad/reserve/a.t" || p.group.V1["cpuset"] != p.shown {
		t.Fatalf("version 1 with cores: %+v", p)
	}
}

// TestTaskCgroups puts a process into the cgroup of a task that leaves its session: it is killed with the task.
func TestTaskCgroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes the groups")
	}
	task := &driver.TaskConfig{
		ID: "id", AllocID: "host-test-" + strconv.Itoa(os.Getpid()), Name: "t", Resources: &driver.Resources{Linux: &driver.LinuxResources{}},
	}
	place := placeOf(cgroupRoot, task.AllocID, task.Name, false)
	if place == nil {
		t.Skip("this host has no cgroups where drivers look for them")
	}
	groups := &taskCgroups{}
	if err := groups.make(t.Context(), task); err != nil {
		t.Skipf("no group can be made: %v", err)
	}
	if got := task.Resources.Linux.CpusetCgroup; got != place.shown {
		t.Errorf("the driver is told %q, want %q", got, place.shown)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range place.group.Folders() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	recovered := &taskCgroups{} // a later run of the agent
	recovered.recover(task)
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := recovered.end(t.Context(), task.ID); err != nil {
		t.Error(err)
	}
	if err := <-waited; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended with %v", err)
	}
	for _, dir := range place.group.Folders() {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
	if err := recovered.end(t.Context(), task.ID); err != nil {
		t.Errorf("a second end: %v", err)
	}
}
