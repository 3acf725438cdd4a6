// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// lateCPU is what the total of a tree counts after its time: a sample that misses a process, or what it used, leaves that to
// the next, in which a rate would have it all.
type lateCPU struct {
	cpus   int // of the machine; 0 if it is not this one
	total  time.Duration
	found  time.Duration // of processes that this collection counts for the first time, and the one before could have
	readAt time.Duration // when the clocks were read the last time; 0 before the first
}

// find notes a process that is counted for the first time. Its start is in ticks since boot, which the clock of samples is
// behind if the machine was suspended: such a process counts as new.
func (l *lateCPU) find(p *process) {
	if l.readAt != 0 && p.identified && p.sinceBoot()+procstats.StartTick < l.readAt {
		l.found += p.tree.cpu + p.tree.children
	}
}

// count ends a collection whose clocks were read at a time, and by which the total grew.
func (l *lateCPU) count(at procstats.Stamp, grown time.Duration) {
	if l.readAt != 0 && l.cpus > 0 {
		l.total += min(grown, max(l.found, grown-time.Duration(l.cpus)*(at.Mono-l.readAt)))
	}
	l.readAt, l.found = at.Mono, 0
}
