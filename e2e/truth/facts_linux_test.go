// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"time"

	"github.com/tachograph/tacho/e2e/truth/shape"
)

// facts are what is true of a random task, whatever tacho says.
type facts struct {
	// cpu is what a cgroup that the task cannot leave has counted, in seconds, and slack how exactly that is known; sworn is
	// what the processes know themselves.
	cpu, slack, sworn float64
	// throttled is for how long a quota above the task's cgroup kept it from running, in seconds; 0 without one.
	throttled float64
	// peak is the most that cgroup was charged, page cache and its own structures included, of which overhead is not the
	// task's; 0 where that was not counted.
	peak, overhead float64
	// brought is the memory that the main process had before it was charged to that cgroup.
	brought float64
	// held is what all processes together held from heldFrom to heldTo, on the monotonic clock, and beside what no cgroup
	// is charged for. most is the most that any of them held at any time.
	held, beside, most float64
	heldFrom, heldTo   float64
	// lag is how old a reading in a report can be.
	lag float64
	// handed was written to files on a disk, and stored is the part that was there when the system call returned. dropped
	// was deleted before.
	handed, stored, dropped float64
	// read is what was read of files; loaded the part that came from the disk.
	read, loaded float64
	// inner and outer bound the time of the run, in seconds.
	inner, outer float64
	cpus         float64
	// whole means that every process has reported: what is summed from reports is not too low.
	whole bool
}

// addReports adds what the processes reported of themselves.
func (f *facts) addReports(s shape.Shape, reports []shape.Report) {
	f.lag = s.Interval.Seconds() + 0.02
	f.whole = len(reports) == s.Processes()
	for _, r := range reports {
		f.sworn += r.CPU.Seconds()
		f.held += float64(r.Lasting)
		f.most = max(f.most, float64(r.Most))
		if r.Done {
			f.held += float64(r.Held)
			f.beside += float64(r.Sockets + r.Huge)
		}
		f.handed += float64(r.Handed)
		f.stored += float64(r.Stored)
		f.dropped += float64(r.Dropped)
		f.read += float64(r.Read)
		f.loaded += float64(r.Loaded)
		if r.Path == "" {
			f.inner = r.Inner.Seconds()
			f.heldFrom, f.heldTo = r.HeldFrom.Seconds(), r.HeldTo.Seconds()
			f.overhead += float64(r.Offset)
		}
	}
	if f.heldTo == 0 {
		f.held, f.beside = 0, 0
	}
	f.most = max(f.most, f.held)
}

// span is the shortest and the longest time that the run can have taken, with what a start and an end take. Under an
// emulator that may be as long as all of tacho's time.
func (f facts) span() (least, most float64) {
	if here() != host {
		return f.inner, f.outer
	}
	return f.inner, f.inner + (200 * time.Millisecond).Seconds()
}
