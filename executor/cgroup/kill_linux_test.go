// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

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
