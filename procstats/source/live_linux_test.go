// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// sleepers starts n processes that wait for the end of the test, or of this process.
func sleepers(tb testing.TB, n int) []int {
	tb.Helper()
	input, hold, err := os.Pipe()
	must(tb, err)
	tb.Cleanup(func() { _, _ = input.Close(), hold.Close() })
	pids := make([]int, 0, n)
	for range n {
		cmd := exec.Command("cat")
		cmd.Stdin = input
		must(tb, cmd.Start())
		tb.Cleanup(func() { endOf(tb, cmd) })
		pids = append(pids, cmd.Process.Pid)
	}
	return pids
}

// endOf kills a command and waits for it; a command that has ended already is fine.
func endOf(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) && cmd.ProcessState == nil {
		tb.Error(err)
	}
}

// rootsOf is a target without a cgroup.
func rootsOf(pids ...int) Target {
	return Target{FS: kernel.HostFS(), Roots: func() []int { return pids }}
}

// makeCgroup makes a cgroup in the unified hierarchy, or in the first of version 1, and removes it at the end. Tests
// that need one are skipped where that is not permitted.
func makeCgroup(tb testing.TB, v2 bool) procstats.Cgroup {
	tb.Helper()
	all := makeCgroups(tb)
	if v2 && all.V2 != "" {
		return procstats.Cgroup{V2: all.V2}
	}
	if dir := (procstats.Cgroup{V1: all.V1}).Procs(); !v2 && dir != "" {
		return procstats.Cgroup{V1: map[string]string{"freezer": dir}}
	}
	tb.Skipf("needs a mounted cgroup hierarchy: none of version 2: %v", v2)
	return procstats.Cgroup{}
}

// makeCgroups makes a cgroup in every hierarchy that is mounted, but for the cpuset of version 1, which accepts no
// process before its CPUs are set.
func makeCgroups(tb testing.TB) procstats.Cgroup {
	tb.Helper()
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	if err != nil {
		tb.Skip("needs cgroups: ", err)
	}
	c := procstats.Cgroup{V1: map[string]string{}}
	for _, mount := range mounts {
		if mount.Version == 1 && slices.Contains(mount.Controllers, "cpuset") {
			continue
		}
		dir, err := os.MkdirTemp(mount.Point, "tacho-test-")
		if err != nil {
			tb.Skip("needs cgroups that may be made: ", err)
		}
		tb.Cleanup(func() { removeCgroup(tb, dir, mount.Point) })
		if mount.Version == 2 {
			c.V2 = dir
			continue
		}
		for _, controller := range mount.Controllers {
			c.V1[controller] = dir
		}
	}
	return c
}

// removeCgroup moves what is still in a cgroup to its parent and removes it.
func removeCgroup(tb testing.TB, dir, parent string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !kernel.Gone(err) {
			tb.Error(err)
		}
		return
	}
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroup(tb, filepath.Join(dir, entry.Name()), parent)
		}
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		tb.Error(err)
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		if err := os.WriteFile(filepath.Join(parent, "cgroup.procs"), []byte(pid), 0); err != nil && !kernel.Gone(err) {
			tb.Error(err)
		}
	}
	// The kernel lets go of members that are ending a moment after they have been waited for.
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err = unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		tb.Errorf("remove %s: %v", dir, err)
	}
}

// enter moves processes into a cgroup.
func enter(tb testing.TB, dir string, pids ...int) {
	tb.Helper()
	for _, pid := range pids {
		must(tb, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	}
}
