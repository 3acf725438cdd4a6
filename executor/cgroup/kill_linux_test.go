// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestEmptyInOneHierarchy empties a group that has a process in one of its hierarchies only.
func TestEmptyInOneHierarchy(t *testing.T) {
	needRoot(t)
	g, err := Create(Options{FS: kernel.HostFS(), ID: fmt.Sprint("one-", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	folders := g.Folders()
	defer func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if len(folders) < 2 {
		t.Skipf("the group has one folder only: %v", folders)
	}
	for _, dir := range folders {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{planVariable + "=task"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if err := write(dir, procsFile, strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Errorf("%s: %v", dir, err)
			_ = cmd.Process.Kill()
		}
		if pids, err := g.PIDs(); err != nil || !slices.Contains(pids, cmd.Process.Pid) {
			t.Errorf("%s: the group has %v, %v, want %d in it", dir, pids, err, cmd.Process.Pid)
		}
		g.Owned = dir == folders[len(folders)-1]
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := g.Empty(ctx); err != nil {
			t.Errorf("%s: %v", dir, err)
			_ = cmd.Process.Kill()
		}
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: the process has ended by itself", dir)
		}
	}
}

// TestThreadedGroups lists and ends a group in which a task has made groups for its threads: their processes are listed
// by the group above them only.
func TestThreadedGroups(t *testing.T) {
	needRoot(t)
	parent := roots(t)[""]
	if parent == "" {
		t.Skip("there is no hierarchy of version 2")
	}
	dir := filepath.Join(parent, fmt.Sprint("threaded-", os.Getpid()))
	nested := filepath.Join(dir, "threads")
	if err := os.MkdirAll(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	g := Of(procstats.Cgroup{V2: dir}, true)
	if err := write(nested, "cgroup.type", "threaded"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{planVariable + "=task"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := write(dir, procsFile, strconv.Itoa(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if pids, err := g.PIDs(); err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Errorf("the group has %v, %v, want %d in it", pids, err, cmd.Process.Pid)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := g.Empty(ctx); err != nil {
		t.Error(err)
		_ = cmd.Process.Kill()
	}
	if err := <-ended; err == nil {
		t.Error("the process has ended by itself")
	}
}
