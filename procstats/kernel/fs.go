// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

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
