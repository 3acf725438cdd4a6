// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// openSources opens what a selection needs, in the order of reading: cgroup and pressure first, because their
// totals are what process rows are compared with and the gap between the reads has to stay small; then what is
// read of every process, the clocks before the slower files; last what has a slow clock of its own.
func openSources(t Target, sel Selection) []Source {
	var sources []Source
	add := func(id SourceID, open func() Source) {
		if sel.HasSource(id) {
			sources = append(sources, open())
		}
	}
	add(SourceCgroup, func() Source { return OpenCgroup(t, sel) })
	add(SourcePSI, func() Source { return OpenPSI(t, sel) })
	add(SourceRusage, func() Source { return OpenRusage(t, sel) })
	members := NewMembers(t)
	add(SourceTree, func() Source { return OpenTree(t, sel, members) })
	add(SourceIO, func() Source { return OpenIO(t, sel, members) })
	add(SourceSmaps, func() Source { return OpenSmaps(t, sel, members, SmapsLimits{}) })
	add(SourcePortable, func() Source { return OpenPortable(t, sel) })
	add(SourceDisk, func() Source { return OpenDisk(t, sel, DiskLimits{}) })
	return sources
}
