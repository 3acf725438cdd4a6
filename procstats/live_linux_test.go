// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleepers starts n processes that sleep until the test ends.
func sleepers(tb testing.TB, n int) []int {
	tb.Helper()
	pids := make([]int, 0, n)
	for range n {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			tb.Fatal(err)
		}
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
	return Target{FS: HostFS(), Roots: func() []int { return pids }}
}

// makeCgroup makes a cgroup below one that is mounted, and removes it at the end with what is in it. Tests that need
// one are skipped where that is not permitted.
func makeCgroup(tb testing.TB, v2 bool) Cgroup {
	tb.Helper()
	mount, err := cgroupMount(v2)
	if err != nil {
		tb.Skip("needs a mounted cgroup hierarchy: ", err)
	}
	dir, err := os.MkdirTemp(mount, "tacho-test-")
	if err != nil {
		tb.Skip("needs a cgroup that may be written to: ", err)
	}
	tb.Cleanup(func() { removeCgroup(tb, dir, mount) })
	if v2 {
		return Cgroup{V2: dir}
	}
	return Cgroup{V1: map[string]string{"freezer": dir}}
}

// cgroupMount finds where the unified hierarchy, or the freezer of version 1, is mounted.
func cgroupMount(v2 bool) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if v2 && fields[2] == "cgroup2" {
			return fields[1], nil
		}
		if !v2 && fields[2] == "cgroup" && strings.Contains(","+fields[3]+",", ",freezer,") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("none of version 2: %v", v2)
}

// removeCgroup moves what is still in a cgroup to its parent and removes it.
func removeCgroup(tb testing.TB, dir, parent string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Error(err)
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
		if err := os.WriteFile(filepath.Join(parent, "cgroup.procs"), []byte(pid), 0); err != nil && !gone(err) {
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
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			tb.Fatal(err)
		}
	}
}
