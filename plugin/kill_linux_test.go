// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterPidfds makes pidfd_open fail in this thread as it does before Linux 5.3, by seccomp(2).
func filterPidfds() error {
	const number = 0 // the offset of nr in struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_OPEN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// Without a pidfd another process may have the number by the time of the signal.
func TestKillNeedsAPidfd(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := identify("", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	filtered, killed := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		filtered <- filterPidfds()
		killed <- kill(address)
	}()
	if err := <-filtered; err != nil {
		t.Errorf("seccomp: %v", err)
	}
	if err := <-killed; !errors.Is(err, unix.ENOSYS) {
		t.Errorf("kill without a pidfd: %v", err)
	}
	if err := kill(address); err != nil {
		t.Errorf("kill: %v", err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // it is one on Linux
		t.Errorf("ended with %v, want by SIGKILL", err)
	}
	if err := kill(address); err != nil {
		t.Errorf("kill what is gone: %v", err)
	}
}
