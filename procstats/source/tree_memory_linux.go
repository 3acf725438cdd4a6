// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"

	"github.com/tachograph/tacho/procstats"
)

// leastMemory is the memory in bytes that the task's processes hold at least: anonymous and shared memory, without the
// pages of files. What several processes map counts once: statm, which is read in every sample, does not tell it apart
// from the rest, but the last round of smaps_rollup did. Of processes that it has not read the largest counts.
func (t *Tree) leastMemory() int64 {
	page := int64(os.Getpagesize())
	var sum, largest int64
	for _, p := range t.members.procs {
		if p.unreadable {
			continue
		}
		memory := p.tree.memory
		anon := anonymous(memory) * page
		largest = max(largest, anon)
		if r := &p.smaps; r.at != 0 && r.fault == "" {
			// Shared memory that was given back since shows as less of what statm has with the files.
			sum += max(0, anon-r.others) + max(0, r.shmem-max(0, r.shared-memory.Shared*page))
		}
	}
	return max(sum, largest)
}

// putSwap puts what the last round of smaps_rollup found to be swapped out.
func (t *Tree) putSwap(s *procstats.Sample) {
	last := &t.members.smaps.last
	switch {
	case last.total == 0:
		s.SetAbsent(procstats.TreeSwap, "smaps_rollup was not read: the task has a cgroup")
	case last.skipped() == last.total:
		s.SetAbsent(procstats.TreeSwap, last.reason)
	default:
		s.SetNumber(procstats.TreeSwap, float64(last.swapPSS))
	}
}
