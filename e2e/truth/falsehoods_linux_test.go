// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package truth_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
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

// regressions are the trials that had a false label here once.
func regressions() []trial {
	return map[string][]trial{
		host: {
			{17, "root/half"}, // a quota in a hierarchy in which tacho made no group
			{63, "root/with"},
			{89, "root/with"}, // left its cgroup
			{62, "root/without"},
			{83, "root/without"}, // memory that is not mapped
			{80, "root/half"},
			{67, "nobody/without"}, // the largest process is not the task
			{82, "root/half"},
			{69, "root/without"}, // shared memory
			{146, "root/with"},
			{19, "root/half"},      // left its cgroup while it was read
			{143, "root/half"},     // found outside late
			{12, "nobody/without"}, // a child of vfork has its parent's memory
			{135, "root/without"},  // a program at a low address without its main thread
			// Left the group that counts CPU time, and ended in that of v2, which says how much they used.
			{36, "root/half"},
			{71, "root/with"},
			{131, "root/with"},
			{131, "root/half"},
			{4, "root/with"}, // left all groups and ended between two samples
		},
		// 11 is a sample without any process, because a thread of the executor ended. The others left the cgroup without their
		// main thread, or ended elsewhere between two samples.
		"6.12/v2": slices.Concat([]trial{{11, "root/without"}, {133, "root/without"}}, inBoth(16, 50, 80, 116)),
		"6.1/v1":  inBoth(41, 42, 45, 73, 118, 125),
	}[here()]
}

// inBoth are trials of seeds with all of a task in a cgroup, and with a part of it.
func inBoth(seeds ...uint64) (all []trial) {
	for _, seed := range seeds {
		all = append(all, trial{seed, "root/with"}, trial{seed, "root/half"})
	}
	return all
}

const host = "host"

// here names the place: the host, or a guest.
func here() string { return cmp.Or(os.Getenv(guestVariable), host) }

// falsehoods counts false labels by kind, in each mode.
type falsehoods struct {
	mu    sync.Mutex
	modes map[string]falseCounts
}

// falseCounts are those of a mode: its seeds, those with a false label, and the false labels by kind.
type falseCounts struct {
	seeds, failed int
	by            map[kind]int
}

func (tab *falsehoods) add(m randomMode, found []falsehood) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	c := tab.modes[m.String()]
	if c.seeds++; c.by == nil {
		c.by = map[kind]int{}
	}
	if len(found) > 0 {
		c.failed++
	}
	for _, wrong := range found {
		c.by[wrong.kind]++
	}
	if tab.modes == nil {
		tab.modes = map[string]falseCounts{}
	}
	tab.modes[m.String()] = c
}

// String is one line for each mode.
func (tab *falsehoods) String() string {
	kinds := []kind{notExact, tooHigh, tooLow, impossible, falseZero, notClosed, below0, missing, failed}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "PLACE\tMODE\tSEEDS\tFAILED")
	for _, k := range kinds {
		fmt.Fprintf(w, "\t%s", strings.ToUpper(string(k)))
	}
	fmt.Fprintln(w)
	for _, m := range randomModes() {
		c := tab.modes[m.String()]
		fmt.Fprintf(w, "%s\t%s\t%d\t%d", here(), m, c.seeds, c.failed)
		for _, k := range kinds {
			fmt.Fprintf(w, "\t%d", c.by[k])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}
