// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestEmptyInOneHierarchy empties a group that has a process in one of its hierarchies only.
func TestEmptyInOneHierarchy(t *testing.T) {
	t.Parallel()
	needRoot(t)
	g := testkit.Value(Create(Options{FS: kernel.HostFS(), ID: fmt.Sprint("one-", os.Getpid())}))(t)
	folders := g.Folders()
	defer func() { testkit.NoError(t, g.Remove()) }()
	if len(folders) < 2 {
		t.Skipf("the group has one folder only: %v", folders)
	}
	for _, dir := range folders {
		pid, ended := startTask(t, dir)
		if pids, err := g.PIDs(); err != nil || !slices.Contains(pids, pid) {
			t.Errorf("%s: the group has %v, %v, want %d in it", dir, pids, err, pid)
		}
		g.Owned = dir == folders[len(folders)-1]
		empty(t, g)
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
	must(t, os.MkdirAll(nested, 0o755))
	g := Of(procstats.Cgroup{V2: dir}, true)
	must(t, write(nested, "cgroup.type", "threaded"))
	pid, ended := startTask(t, dir)
	if pids, err := g.PIDs(); err != nil || !slices.Equal(pids, []int{pid}) {
		t.Errorf("the group has %v, %v, want %d in it", pids, err, pid)
	}
	empty(t, g)
	if err := <-ended; err == nil {
		t.Error("the process has ended by itself")
	}
}
