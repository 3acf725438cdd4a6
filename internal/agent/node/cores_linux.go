// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package node

import (
	"runtime"

	"golang.org/x/sys/unix"
)

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
