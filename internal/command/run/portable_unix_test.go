// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix && (!linux || portable)

package run

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestPortableSend holds that a process that has left the group is sent a signal only if it is the one that was listed,
// and not another that has its number since.
func TestPortableSend(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		testkit.Must(t, cmd.Start())
		return cmd
	}
	guard, left := start(), start()
	defer func() { _ = guard.Wait() }()
	pid := left.Process.Pid
	p := testkit.Value(process.NewProcess(int32(pid)))(t)
	created := testkit.Value(p.CreateTime())(t)
	g := &group{guard: guard, seen: map[int]int64{pid: created - 1000}}
	g.send(unix.SIGTERM) // the guard, too
	g.see(pid, created)
	g.kill()
	_ = left.Wait()
	if status := left.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != unix.SIGKILL {
		t.Errorf("it was ended by %s, which was for another process", status.Signal())
	}
}
