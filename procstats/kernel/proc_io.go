// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ProcIO is /proc/PID/io, proc_pid_io(5), in bytes.
type ProcIO struct {
	Rchar, Wchar, ReadBytes, WriteBytes, CancelledWriteBytes int64
}

// procIOCounters is how many counters a ProcIO has.
const procIOCounters = 5

// ReadProcIO reads /proc/PID/io below a proc root. The kernel adds what a process did to its parent's values when
// the parent waits for it, so a reaper that needs its I/O reads it just before. The error wraps ENOENT
// or ESRCH for a process that is gone and EACCES for one of another user.
func ReadProcIO(root FS, pid int) (ProcIO, error) {
	path := filepath.Join(root.Proc, strconv.Itoa(pid), "io")
	data, err := os.ReadFile(path)
	if err != nil {
		return ProcIO{}, err
	}
	io, err := ParseProcIO(data)
	if err != nil {
		return ProcIO{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return io, nil
}

// ParseProcIO reads /proc/PID/io, proc_pid_io(5): all five counters or none.
func ParseProcIO(data []byte) (ProcIO, error) {
	var io ProcIO
	found := 0
	for {
		line, rest, ok := cutLine(data)
		if !ok {
			break
		}
		data = rest
		key, value, _ := bytes.Cut(line, []byte(": "))
		counter := io.counter(key)
		if counter == nil {
			continue
		}
		n, ok := parseKernelUint(value)
		if !ok {
			return ProcIO{}, ErrFormat
		}
		*counter = int64(n)
		found++
	}
	if found != procIOCounters {
		return ProcIO{}, ErrFormat
	}
	return io, nil
}

func (io *ProcIO) counter(key []byte) *int64 {
	switch string(key) {
	case "rchar":
		return &io.Rchar
	case "wchar":
		return &io.Wchar
	case "read_bytes":
		return &io.ReadBytes
	case "write_bytes":
		return &io.WriteBytes
	case "cancelled_write_bytes":
		return &io.CancelledWriteBytes
	}
	return nil
}
