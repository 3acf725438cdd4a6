// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
)

// openSources opens what a selection needs, in the order of reading: cgroup and pressure first, because their
// totals are what process rows are compared with and the gap between the reads has to stay small; then what is
// read of every process, the clocks before the slower files; last what has a slow clock of its own.
func openSources(t Target, sel procstats.Selection) []Source {
	var sources []Source
	add := func(id procstats.SourceID, open func() Source) {
		if sel.HasSource(id) {
			sources = append(sources, open())
		}
	}
	add(procstats.SourceCgroup, func() Source { return OpenCgroup(t, sel) })
	add(procstats.SourcePSI, func() Source { return OpenPSI(t, sel) })
	add(procstats.SourceRusage, func() Source { return OpenRusage(t, sel) })
	members := NewMembers(t)
	add(procstats.SourceTree, func() Source { return OpenTree(t, sel, members) })
	add(procstats.SourceIO, func() Source { return OpenIO(t, sel, members) })
	add(procstats.SourceSmaps, func() Source { return OpenSmaps(t, sel, members, SmapsLimits{}) })
	add(procstats.SourcePortable, func() Source { return OpenPortable(t, sel) })
	add(procstats.SourceDisk, func() Source { return OpenDisk(t, sel) })
	return sources
}
