// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/guest/plan"
)

// runTest runs the test binary to its end and sends its output.
func runTest(env []string, test plan.Test, user account, out *messages) (plan.Result, error) {
	output, end, err := os.Pipe()
	if err != nil {
		return plan.Result{}, err
	}
	defer output.Close()
	pid, err := start(env, test, user, end)
	end.Close()
	if err == nil {
		err = out.send(plan.Message{Started: true})
	}
	if err != nil {
		return plan.Result{}, err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, output)
		copied <- err
	}()
	status, err := reap(pid)
	if err != nil {
		return plan.Result{}, err
	}
	// Processes that the test binary left behind may hold the pipe open: all are killed.
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return plan.Result{}, fmt.Errorf("kill what is left: %w", err)
	}
	if err := <-copied; err != nil {
		return plan.Result{}, fmt.Errorf("copy output: %w", err)
	}
	if status.Signaled() {
		return plan.Result{Exit: 128 + int(status.Signal()), Signal: status.Signal().String()}, nil
	}
	return plan.Result{Exit: status.ExitStatus()}, nil
}

func start(env []string, test plan.Test, user account, output *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir: test.Dir,
		Env: append([]string{
			"HOME=" + user.home, "USER=" + user.name, "TMPDIR=/tmp", "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
		}, env...),
		Files: []*os.File{null, output, output},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if user.id != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(user.id), Gid: uint32(user.id)}
	}
	if user.cgroup != "" {
		leaf, err := os.Open(user.cgroup)
		if err != nil {
			return 0, err
		}
		defer leaf.Close()
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(leaf.Fd())
	}
	process, err := os.StartProcess(test.Argv[0], test.Argv, attr)
	if err != nil {
		return 0, err
	}
	pid := process.Pid // Release forgets it
	return pid, process.Release()
}

// reap collects the orphans that come to the first process until pid ends, and returns pid's
// status.
func reap(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("wait: %w", err)
		}
		if ended == pid {
			return status, nil
		}
	}
}
