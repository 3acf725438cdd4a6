// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Waited is what the kernel has added up for the children that a process has waited for. Two are equal only if no child was waited
// for in between: every process has page faults, however short it is.
type Waited struct {
	Minflt, Majflt uint64
	CPU            time.Duration // in whole ticks
}

// ReadWaited reads it from /proc/PID/stat, without waking the process. The error wraps ENOENT or ESRCH if it is gone.
func ReadWaited(fs FS, pid int) (Waited, error) {
	path := filepath.Join(fs.Proc, strconv.Itoa(pid), "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return Waited{}, err
	}
	stat, err := ParseProcStat(data)
	if err != nil {
		return Waited{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return Waited{Minflt: stat.cminflt, Majflt: stat.cmajflt, CPU: stat.Children()}, nil
}
