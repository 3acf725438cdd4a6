// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package nopidfd lets tests run as on a kernel without pidfds.
package nopidfd

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Run calls f in a thread in which pidfd_open(2) fails as it does before Linux 5.3. Other goroutines, also
// those that f starts, are not affected.
func Run(t testing.TB, f func()) {
	t.Helper()
	var filterErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if filterErr = denyPidfds(); filterErr == nil {
			f()
		}
	}()
	<-done
	if filterErr != nil {
		t.Fatalf("seccomp: %v", filterErr)
	}
}

// denyPidfds installs a filter of system calls in this thread, seccomp(2).
func denyPidfds() error {
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
