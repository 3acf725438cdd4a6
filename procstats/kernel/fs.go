// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"syscall"
)

// FS is where the kernel's files are. Everything in this package is read below these roots.
type FS struct {
	// Proc is a mounted procfs, "/proc" on a running system, a folder of captured files in tests.
	Proc string
	// Sys is a mounted sysfs, "/sys" on a running system; empty for none.
	Sys string
	// Live reports that Proc is the running kernel's own, in the PID namespace of this process: only then are
	// system calls on PIDs (CPU clocks) meaningful.
	Live bool
}

// HostFS returns the running system's own roots.
func HostFS() FS { return FS{Proc: "/proc", Sys: "/sys", Live: true} }

// Gone reports whether err only says that the process or cgroup behind a kernel file has ended, which is the normal
// course of things: ENOENT when its file is opened, ESRCH when a kept-open file below /proc/PID is read, ENODEV
// when a kept-open file of a removed cgroup is read.
func Gone(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
