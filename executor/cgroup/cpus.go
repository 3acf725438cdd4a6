// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU bounds absurd lists: the kernel's own bound (NR_CPUS) is at most 8192.
const maxCPU = 1 << 16

// heldCPUs are the CPUs that a task is limited to; none without such a limit of its own.
type heldCPUs struct {
	list []int
	// own are those of the thread that starts the task. They are the task's if it has no such limit, and before Linux 6.2
	// (unbinds) a process that comes into a group of version 2 can lose them: one with a cpuset, perhaps of all CPUs.
	own     []int
	unbinds bool
	// cloned reports whether a process that is cloned into a group gets the CPUs of the group, and not those of its
	// parent: since Linux 6.4, and in later releases of 5.15 and 6.1.
	cloned bool
}

// wanted returns the CPUs that the task should have; none if the kernel sees to that.
func (h *heldCPUs) wanted() []int {
	if len(h.list) > 0 || !h.unbinds {
		return h.list
	}
	return h.own
}

// ParseCPUs reads a list such as "0-3,7", cpuset(7) "List format", into ascending numbers.
func ParseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 32)
		to, errTo := strconv.ParseUint(last, 10, 32)
		if err != nil || errTo != nil || to < from || to >= maxCPU {
			return nil, fmt.Errorf("invalid cpuset %q: must be a list of CPUs such as 0-3,7", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// FormatCPUs writes ascending numbers as the kernel does.
func FormatCPUs(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		last := i
		for last+1 < len(cpus) && cpus[last+1] == cpus[last]+1 {
			last++
		}
		part := strconv.Itoa(cpus[i])
		if last > i {
			part += "-" + strconv.Itoa(cpus[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ",")
}
