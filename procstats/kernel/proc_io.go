// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"fmt"
	"time"
)

// ProcIO is /proc/PID/io, proc_pid_io(5), in bytes.
type ProcIO struct {
	Rchar, Wchar, ReadBytes, WriteBytes, CancelledWriteBytes int64
}

// ReadProcIO reads /proc/PID/io below a proc root. The kernel adds what a process did to its parent's values when
// the parent waits for it, so a reaper that needs its I/O reads it just before. The error wraps ENOENT
// or ESRCH for a process that is gone and EACCES for one of another user.
func ReadProcIO(root FS, pid int) (ProcIO, error) {
	path := root.path(pid, "io")
	data, err := ReadFile(path)
	if err != nil {
		return ProcIO{}, err
	}
	io, err := ParseProcIO(data)
	if err != nil {
		return ProcIO{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return io, nil
}

// ParseProcIO reads /proc/PID/io: all five counters or none.
func ParseProcIO(data []byte) (ProcIO, error) {
	fields := [...]Field{
		{Key: "rchar"}, {Key: "wchar"}, {Key: "read_bytes"}, {Key: "write_bytes"}, {Key: "cancelled_write_bytes"},
	}
	if parseKeyed(data, ':', paddedValue, fields[:]); !allRead(fields[:]) {
		return ProcIO{}, ErrFormat
	}
	return ProcIO{
		Rchar: int64(fields[0].Value), Wchar: int64(fields[1].Value), ReadBytes: int64(fields[2].Value),
		WriteBytes: int64(fields[3].Value), CancelledWriteBytes: int64(fields[4].Value),
	}, nil
}

// Switches are the context switches of one thread, in /proc/PID/task/TID/status, proc_pid_status(5).
type Switches struct{ Voluntary, Involuntary uint64 }

// ParseSwitches finds both numbers, or none.
func ParseSwitches(data []byte) (Switches, error) {
	fields := [...]Field{{Key: "voluntary_ctxt_switches"}, {Key: "nonvoluntary_ctxt_switches"}}
	if parseKeyed(data, ':', paddedValue, fields[:]); !allRead(fields[:]) {
		return Switches{}, ErrFormat
	}
	return Switches{Voluntary: uint64(fields[0].Value), Involuntary: uint64(fields[1].Value)}, nil
}

// ProcSchedstat is /proc/PID/task/TID/schedstat of one thread. Its zero value is what the kernel writes if it does not
// count.
type ProcSchedstat struct {
	CPU      time.Duration
	RunDelay time.Duration // it could run and waited for a CPU
	Slices   uint64        // how often it got one
}

// ParseProcSchedstat reads the three numbers of the file.
func ParseProcSchedstat(data []byte) (ProcSchedstat, error) {
	var numbers [3]uint64
	line, _, whole := cutLine(data)
	for i := range numbers {
		var word []byte
		var ok bool
		word, line, _ = bytes.Cut(line, []byte{' '})
		if numbers[i], ok = parseUint(word); !ok || !whole {
			return ProcSchedstat{}, ErrFormat
		}
	}
	//nolint:gosec // at most math.MaxInt64
	return ProcSchedstat{CPU: time.Duration(numbers[0]), RunDelay: time.Duration(numbers[1]), Slices: numbers[2]}, nil
}
