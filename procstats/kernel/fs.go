// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package kernel reads the files of procfs, sysfs and cgroupfs. Each Go file is named after the kernel's files that it
// reads, as proc_stat.go is after /proc/PID/stat; parse.go has the formats that several of them share.
//
// The package knows formats and no measurements: a parser fills fields, and package source says what they mean. A
// [File] is kept open and read again and again. [FindCgroup] and [CgroupMounts] say where the cgroups of a process
// are, [Identify] who a process is. Everything is read below the root that an [FS] gives.
package kernel

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
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

	mounts *knownMounts // nil to read them each time
}

// HostFS returns the running system's own roots.
func HostFS() FS { return FS{Proc: "/proc", Sys: "/sys", Live: true} }

// Knowing returns the same, with the cgroup mounts read once within that time: the start of a task asks for them ten
// times.
func (root FS) Knowing(within time.Duration) FS {
	root.mounts = &knownMounts{until: time.Now().Add(within)}
	return root
}

// ReadFile is os.ReadFile for files of the kernel. Most can be polled, so that os.File puts them into the runtime's
// poller, which takes longer than to read them. The error is an *fs.PathError around the errno.
func ReadFile(path string) (data []byte, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	if data, err = f.Read(make([]byte, 0, 512)); err != nil {
		err = &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, errors.Join(err, f.Close())
}

// path returns the path of a file below /proc/PID.
func (root FS) path(pid int, file string) string {
	return filepath.Join(root.Proc, strconv.Itoa(pid), file)
}

// ErrFormat is the error of every parser in this package that meets what the kernel does not write.
var ErrFormat = errors.New("not in the kernel's format")

// Gone reports whether err only says that the process or cgroup behind a kernel file has ended, which is the normal
// course of things: ENOENT when its file is opened, ESRCH when a kept-open file below /proc/PID is read, ENODEV
// when a kept-open file of a removed cgroup is read.
func Gone(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
