// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "math"

// Orders of preference for I/O, as in headline.go.
//
//nolint:gochecknoglobals // constant lists
var (
	ioReadSources  = [...]ID{CgroupIORead, TreeIORead, CgroupBlkioRead, RusageInblock}
	ioWriteSources = [...]ID{TreeIOStored, CgroupBlkioWrite}
	ioWriteNeeds   = [...]ID{
		CgroupIOWrite, TreeIOStored, CgroupBlkioWrite,
		TreeIOWrite, TreeIOCancelledWrite, RusageOublock, CgroupMemoryFileDirty, CgroupMemoryFileWriteback,
	}
	ioHandedSources  = [...]ID{TreeIOWrite, RusageOublock}
	ioPendingSources = [...]ID{CgroupMemoryFileDirty, CgroupMemoryFileWriteback}
)

// ioHeadline takes the exact counter where there is one, and otherwise the largest of the lower bounds: each misses
// something else, and none counts too much.
func ioHeadline(s *Sample, id ID, sources []ID) HeadlineValue {
	best := firstRead(s, id, sources)
	if best.Guarantee == Exact {
		return best
	}
	for _, from := range sources {
		value, ok := s.Task.Number(from)
		if most, _ := best.Reading.Number(); ok && value > most {
			best = takenFrom(id, value, from)
		}
	}
	return best
}

// ioWriteHeadline is what has reached storage: what the kernel charged to the cgroup, else the larger lower bound.
func ioWriteHeadline(s *Sample) HeadlineValue {
	written, ok := s.Task.Number(CgroupIOWrite)
	if !ok {
		v := ioHeadline(s, HeadlineIOWrite, ioWriteSources[:])
		if !v.Reading.Present() {
			v = noHeadline(HeadlineIOWrite, whyNone(s, []ID{TreeIOStored, CgroupIOWrite}))
		}
		return v
	}
	v := takenFrom(HeadlineIOWrite, written, CgroupIOWrite)
	if allWritten(s, written) {
		v.Guarantee = Exact
	}
	return v
}

// allWritten reports that the bytes charged to a cgroup are those that the task handed to the kernel, and that nothing is
// left to write, both to 1 %. Otherwise the cgroup may have been charged what others wrote, or not what the task wrote:
// the kernel charges the cgroup that owns a file's pages, and the root one for those of devices.
func allWritten(s *Sample, written float64) bool {
	handed, okHanded := s.Task.Number(TreeIOWrite)
	cancelled, okCancelled := s.Task.Number(TreeIOCancelledWrite)
	pending, okPending := pendingBytes(s)
	if !okHanded || !okCancelled || !okPending {
		return false
	}
	if reaped, ok := s.Task.Number(RusageOublock); ok {
		handed = max(handed, reaped)
	}
	handed = max(0, handed-cancelled)
	return math.Abs(written-handed) <= handed/100 && pending <= handed/100
}

// pendingBytes is the page cache of the cgroup that has not reached storage.
func pendingBytes(s *Sample) (bytes float64, ok bool) {
	dirty, okDirty := s.Task.Number(CgroupMemoryFileDirty)
	writeback, okWriteback := s.Task.Number(CgroupMemoryFileWriteback)
	return dirty + writeback, okDirty && okWriteback
}

func ioPendingHeadline(s *Sample) HeadlineValue {
	bytes, ok := pendingBytes(s)
	if !ok {
		return noHeadline(HeadlineIOPending, whyNone(s, ioPendingSources[:]))
	}
	v := takenFrom(HeadlineIOPending, bytes, CgroupMemoryFileDirty)
	v.Guarantee = Sampled // pages of the task can be charged to other cgroups, and those of others to its own
	return v
}
