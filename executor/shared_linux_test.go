// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// stranger starts a process that is nobody's task, in a session of its own; alive tells whether it still runs.
func stranger(t *testing.T) (pid int, alive func() bool) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, func() bool {
		now, err := kernel.Identify(kernel.HostFS(), cmd.Process.Pid)
		return err == nil && !now.Zombie
	}
}

// hostGroup makes a group in the hierarchy of pids, or in that of v2.
func hostGroup(t *testing.T) (placement *proto.CgroupPlacement, dir string) {
	t.Helper()
	mounts := testkit.Value(kernel.CgroupMounts(kernel.HostFS()))(t)
	placement = &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN}
	for _, mount := range mounts {
		dir = filepath.Join(mount.Point, "shared-"+strconv.Itoa(os.Getpid()))
		switch {
		case mount.Version == 2:
			placement.V2 = dir
		case len(mount.Controllers) == 1 && mount.Controllers[0] == "pids":
			placement.V1 = map[string]string{"pids": dir}
		default:
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("cannot make a group for a task: %v", err)
		}
		t.Cleanup(func() { must(t, os.Remove(dir)) })
		return placement, dir
	}
	t.Skip("no cgroup hierarchy is mounted here")
	return nil, ""
}

// TestSharedGroup runs a task in a group that others live in: the end of the task, and its kill, are nobody else's.
func TestSharedGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"ends": "exit 0", "is killed": "sleep 1000 & sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			placement, dir := hostGroup(t)
			placement.Shared = true
			pid, alive := stranger(t)
			must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
			f := start(t)
			f.run(script, func(r *proto.LaunchRequest) { r.Cgroup = placement })
			if name == "is killed" {
				must(t, f.Stop(t.Context(), 9, 0))
			}
			f.wait()
			if !alive() {
				t.Error("the task's end was the end of a process that is not the task's")
			}
			if left := f.processes(); len(left) > 0 {
				t.Errorf("left of the task: %v", left)
			}
		})
	}
}

// TestRootIsShared refuses to take the root of a hierarchy, which has everybody in it, for a task's own group.
func TestRootIsShared(t *testing.T) {
	t.Parallel()
	mounts, err := kernel.CgroupMounts(kernel.HostFS())
	if err != nil || len(mounts) == 0 {
		t.Skipf("no cgroup hierarchy is mounted here (%v)", err)
	}
	f := start(t)
	request := f.request("echo never")
	request.Cgroup = &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_GIVEN, V2: mounts[0].Point + "/"}
	if _, err := f.Launch(t.Context(), request); err == nil {
		t.Error("a task has the root of a hierarchy to itself")
	}
}

// TestKillTaskOfUsedNumber holds that a session whose number was used again is not taken for the task's.
func TestKillTaskOfUsedNumber(t *testing.T) {
	t.Parallel()
	pid, alive := stranger(t)
	now := testkit.Value(kernel.Identify(kernel.HostFS(), pid))(t)
	boot := testkit.Value(kernel.BootID(kernel.HostFS()))(t)
	const hour = 3600 * 100 // in clock ticks
	main := procstats.ProcessID{PID: pid, Start: now.Start - min(now.Start-1, hour)}
	address := wire.Address{
		ID: "x", Folder: filepath.Join(t.TempDir(), "x"), Home: procstats.Home{BootID: boot}, Main: main, Executor: main,
	}
	testkit.NoError(t, client.KillTask(t.Context(), address))
	if !alive() {
		t.Error("a process that happens to have the task's PID was killed")
	}
}
