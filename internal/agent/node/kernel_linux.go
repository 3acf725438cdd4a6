// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// signalNames are the signals that can be sent to a task.
func signalNames() string {
	const last = 64
	var names []string
	for number := range unix.Signal(last + 1) {
		if name := unix.SignalName(number); name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// cgroupVersion is that of the hierarchy at a mount point, as Nomad has it: 1 also if there is one of version 2
// beside others; empty without any.
func cgroupVersion(root string) string {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return "2"
	}
	if groups, err := filepath.Glob(filepath.Join(root, "*", "tasks")); err == nil && len(groups) > 0 {
		return "1"
	}
	return ""
}

// usableCores are those that this process may run on, sched_getaffinity(2).
func usableCores() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return firstCores(runtime.NumCPU())
	}
	var cores []int
	for core := 0; len(cores) < set.Count(); core++ {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores
}
