// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processes lists the PIDs in /proc.
func Processes(fs FS) ([]int, error) {
	entries, err := os.ReadDir(fs.Proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Comm returns the name of a process, /proc/PID/comm. It may have any bytes, newlines too.
func Comm(fs FS, pid int) (string, error) {
	text, err := os.ReadFile(filepath.Join(fs.Proc, strconv.Itoa(pid), "comm"))
	return strings.TrimSuffix(string(text), "\n"), err
}

// InInitialPIDNamespace reports whether the PIDs of this process are those that the kernel logs: the first PID namespace
// has a fixed number, PROC_PID_INIT_INO in include/linux/proc_ns.h.
func InInitialPIDNamespace(fs FS) bool {
	name, err := os.Readlink(filepath.Join(fs.Proc, "self", "ns", "pid"))
	return err == nil && name == "pid:[4026531836]"
}
