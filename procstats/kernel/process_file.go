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

// processFileNames are the names below /proc/PID.
//
//nolint:gochecknoglobals // constant
var processFileNames = [...]string{
	FileStat: "stat", FileStatm: "statm", FileIO: "io", FileTask: "task", FileChildren: "children",
	FileSmapsRollup: "smaps_rollup", FileCmdline: "cmdline", FileCgroup: "cgroup", FileSchedstat: "schedstat",
	FileStatus: "status",
}

// String returns the file's name below /proc/PID.
func (f ProcessFile) String() string { return processFileNames[f] }

// AppendThreadPath appends the path of a thread's file below the folder of its process's threads, with the NUL that
// system calls want.
func (f ProcessFile) AppendThreadPath(path []byte, tid int) []byte {
	path = append(strconv.AppendInt(path, int64(tid), 10), '/')
	return append(append(path, processFileNames[f]...), 0)
}

// AppendPath appends the path of a process's file, with the NUL that system calls want.
func (f ProcessFile) AppendPath(path []byte, fs FS, pid int) []byte {
	path = append(append(path, fs.Proc...), '/')
	if f == FileChildren {
		path = append(strconv.AppendInt(path, int64(pid), 10), "/task/"...)
	}
	return f.AppendThreadPath(path, pid)
}
