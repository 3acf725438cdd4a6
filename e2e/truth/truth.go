// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package truth compares what tacho reports with what is true. The workloads know what they used from their own
// CPU clocks, from wait4(2) and from the bytes they asked for; a cgroup that the test made around the task is a
// second, independent meter. Neither is the file that the product reads.
package truth

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Truth is what a workload knows of itself at its end. What it does not know is nil.
type Truth struct {
	// Workload is its name on the command line.
	Workload string `json:"workload"`
	// Processes counts every process of the workload, itself included.
	Processes int    `json:"processes"`
	CPU       CPU    `json:"cpu"`
	Memory    Memory `json:"memory"`
	IO        IO     `json:"io"`
	// Cgroups are the lines of /proc/self/cgroup at the start: where the product put the task.
	Cgroups []string `json:"cgroups"`
}

// CPU is time on a CPU, in seconds.
type CPU struct {
	// Total is the sum of Own, Waited and Reported.
	Total float64 `json:"total"`
	// Own is the main process's CLOCK_PROCESS_CPUTIME_ID.
	Own float64 `json:"own"`
	// Waited is what wait4(2) gave for the children it was called for, and theirs. It is exact: exec and exit
	// are in it.
	Waited float64 `json:"waited"`
	// Reported is the sum of the last clock readings of processes that are not waited for, and what they used after their
	// reports, to exit: by Cgroup, else as much as processes that were waited for.
	Reported float64 `json:"reported"`
	// BeforeMeter is the part of Own from before the process moved into the meter's cgroup.
	BeforeMeter *float64 `json:"before_meter,omitempty"`
	// Cgroup is what the kernel has counted at the end for the cgroup that the product made for the task; nil without one.
	Cgroup *float64 `json:"cgroup,omitempty"`
}

// Memory is what was allocated, in bytes.
type Memory struct {
	// Anon is RssAnon of /proc/PID/status at the steady moment, of all processes together.
	Anon *int64 `json:"anon,omitempty"`
	// Spike is what was touched for a moment only.
	Spike *int64 `json:"spike,omitempty"`
	// Shared is the size of the one mapping that all processes touch.
	Shared *int64 `json:"shared,omitempty"`
	// Cached is the size of the file that was read again and again.
	Cached *int64 `json:"cached,omitempty"`
	// MeterOffset is how much more than the task's own cgroup the one above it is charged, at the height of
	// the spike: the kernel charges a cgroup's own structures to its parent.
	MeterOffset *int64 `json:"meter_offset,omitempty"`
}

// IO is what was read and written, in bytes.
type IO struct {
	// Read and Written are what system calls moved to and from files.
	Read    *int64 `json:"read,omitempty"`
	Written *int64 `json:"written,omitempty"`
	// StorageRead and StorageWritten are what went to and came from the storage below.
	StorageRead    *int64 `json:"storage_read,omitempty"`
	StorageWritten *int64 `json:"storage_written,omitempty"`
}

// Write puts the truth into a file, whole or not at all.
func (t Truth) Write(file string) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode truth: %w", err)
	}
	half := file + ".half"
	if err := os.WriteFile(half, data, 0o600); err != nil {
		return fmt.Errorf("write truth: %w", err)
	}
	if err := os.Rename(half, filepath.Clean(file)); err != nil {
		return fmt.Errorf("write truth: %w", err)
	}
	return nil
}

// Read returns the truth that a workload left in a file.
func Read(file string) (Truth, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Truth{}, fmt.Errorf("read truth: %w", err)
	}
	var t Truth
	if err := json.Unmarshal(data, &t); err != nil {
		return Truth{}, fmt.Errorf("read truth: %s: %w", file, err)
	}
	return t, nil
}
