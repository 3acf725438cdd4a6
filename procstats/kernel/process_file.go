// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "strconv"

// ProcessFile is a file below /proc/PID that is read again and again.
type ProcessFile uint8

// The files below /proc/PID, proc(5).
const (
	FileStat ProcessFile = iota
	FileStatm
	FileIO
	// FileTask is the folder of threads.
	FileTask
	// FileChildren is the main thread's.
	FileChildren
	// FileSmapsRollup is not to be kept open: it holds on to the memory that the process had when it was opened, even
	// over an exec.
	FileSmapsRollup
	// FileCmdline is read seldom, and its first CmdlineRead bytes only.
	FileCmdline
	// FileCgroup is read seldom.
	FileCgroup
	// FileSchedstat and FileStatus are a thread's, be they below /proc/PID.
	FileSchedstat
	FileStatus

	// KeptProcessFiles counts those that may be kept open.
	KeptProcessFiles = FileSmapsRollup
)

// String returns the file's name below /proc/PID.
func (f ProcessFile) String() string {
	switch f {
	case FileStat:
		return "stat"
	case FileStatm:
		return "statm"
	case FileIO:
		return "io"
	case FileTask:
		return "task"
	case FileChildren:
		return "children"
	case FileSmapsRollup:
		return "smaps_rollup"
	case FileCmdline:
		return "cmdline"
	case FileCgroup:
		return "cgroup"
	case FileSchedstat:
		return "schedstat"
	case FileStatus:
		return "status"
	}
	return "ProcessFile(" + strconv.Itoa(int(f)) + ")"
}

// AppendPath appends the path of a process's file, with the NUL that system calls want.
func (f ProcessFile) AppendPath(path []byte, fs FS, pid int) []byte {
	path = append(append(path, fs.Proc...), '/')
	path = strconv.AppendInt(path, int64(pid), 10)
	path = append(path, '/')
	if f == FileChildren {
		path = append(path, "task/"...)
		path = strconv.AppendInt(path, int64(pid), 10)
		path = append(path, '/')
	}
	path = append(path, f.String()...)
	return append(path, 0)
}
