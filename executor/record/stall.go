// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Shares of the wall time from which on a wait is worth a word.
const (
	// stalledShare is how much of its time a task may lose to one resource before that names the run.
	stalledShare = 0.10
	// idleCores is how much CPU a task may use and still be called idle, and idleShare how much it may wait.
	idleCores = 0.05
	idleShare = 0.05
)

// Waits is what a task waited for, and did, over a run or a window. All are growths of counters in seconds; nil
// where they were not measured.
//
// The pressure totals are time of the wall clock, so that divided by it they are a share from 0 to 1: at 0.5 at least
// one process waited during half of the time (some). Where the task used several CPUs the kernel averages over them,
// each weighted by the time in which the task kept it from being idle: one process that waits while others run on
// other CPUs counts in part only. Throttled counts CPU-seconds, one for each CPU that was held back, and may exceed
// the wall time. AncestorThrottled is the same for the quotas of the groups above, and for all tasks below those.
type Waits struct {
	Wall               time.Duration
	CPU, Throttled     *float64
	AncestorThrottled  *float64
	CPUSome, CPUFull   *float64
	MemorySome, IOSome *float64
	// Left is how many processes were seen outside the cgroup that pressure is read of.
	Left *float64
}

// WaitsIn gathers Waits from whatever knows growths of counters; ok is false where one was not measured.
func WaitsIn(wall time.Duration, growth func(procstats.ID) (seconds float64, ok bool)) Waits {
	first := func(ids ...procstats.ID) *float64 {
		for _, id := range ids {
			if seconds, ok := growth(id); ok {
				return &seconds
			}
		}
		return nil
	}
	return Waits{
		Wall:              wall,
		CPU:               first(procstats.CgroupCPUUsage, procstats.TreeCPU, procstats.RusageCPU),
		Throttled:         first(procstats.CgroupCPUThrottled),
		AncestorThrottled: first(procstats.CgroupCPUAncestorThrottled, procstats.CgroupCPUInheritedThrottled),
		CPUSome:           first(procstats.PSICPUSome),
		CPUFull:           first(procstats.PSICPUFull),
		MemorySome:        first(procstats.PSIMemorySome),
		IOSome:            first(procstats.PSIIOSome),
		Left:              first(procstats.TreeLeftPressure),
	}
}

// WaitsBetween gathers Waits from two samples; either may be nil, and nothing is known then.
func WaitsBetween(before, after *procstats.Sample, wall time.Duration) Waits {
	if before == nil || after == nil {
		return Waits{Wall: wall}
	}
	w := procstats.Window{MaxProcesses: -1}
	w.Add(before)
	w.Add(after)
	return WaitsIn(wall, func(id procstats.ID) (float64, bool) {
		if m, known := procstats.Lookup(id); known && m.Source != procstats.SourceCgroup && m.Source != procstats.SourcePSI {
			if _, read := before.Task.Number(id); !read {
				return after.Task.Number(id) // nothing had run before the baseline: what has no counter yet starts at 0
			}
		}
		return growthIn(&w, id)
	})
}

func growthIn(w *procstats.Window, id procstats.ID) (seconds float64, ok bool) {
	growth, err := w.Reduce(id, procstats.Delta)
	if err != nil {
		return 0, false
	}
	return growth.Number()
}

// StallOf returns one word for what a run or a window waited for; empty where too little was measured to say.
//
// The word is that of the resource which cost the largest share of the wall time, from a tenth on: memory-thrashing
// (memory some), io-bound (io some), cpu-throttled (throttled CPU-seconds of the wall time, or of the CPU time that
// was wanted where several CPUs were held back at once), cpu-starved (cpu some without the throttled share, because a
// throttled process waits for a CPU too). Pages that are read back after they were reclaimed count as I/O and as
// memory: both are memory's where its own is at least half of the I/O. Below a tenth the task was idle where it used
// less than a twentieth of a core and waited less than a twentieth of the time, and fine otherwise; both only where
// all three pressures were measured, of all processes.
func StallOf(w Waits) Stall {
	if w.Wall <= 0 {
		return ""
	}
	own, above := w.throttledShares()
	throttled := max(own, above)
	memory, io, cpu := w.share(w.MemorySome), w.share(w.IOSome), max(0, w.share(w.CPUSome)-throttled)
	if memory > 0 && memory >= io/2 {
		memory, io = max(memory, io), 0
	}
	word, largest := Fine, stalledShare
	for _, wait := range []struct {
		share float64
		word  Stall
	}{{memory, MemoryThrashing}, {io, IOBound}, {throttled, CPUThrottled}, {cpu, CPUStarved}} {
		if wait.share >= largest && (word == Fine || wait.share > largest) {
			word, largest = wait.word, wait.share
		}
	}
	if word != Fine {
		return word
	}
	if w.CPUSome == nil || w.MemorySome == nil || w.IOSome == nil || w.left() {
		return ""
	}
	waited := max(w.share(w.CPUSome), w.share(w.MemorySome), w.share(w.IOSome))
	if w.CPU != nil && w.share(w.CPU) < idleCores && waited < idleShare {
		return Idle
	}
	return Fine
}

// thrashing reports whether a task waited for memory and not, in that time, for a CPU that others had.
func (w Waits) thrashing() bool {
	return w.CPUFull == nil || *w.CPUFull == 0 || w.memoryShare() > stalledShare
}

// memoryShare is the share of its time for which a task waited for memory, without that in which others had the CPU: of
// all waits as much as of its CPU time.
func (w Waits) memoryShare() float64 {
	if w.MemorySome == nil || w.Wall <= 0 {
		return 0
	}
	waited := *w.MemorySome
	if w.CPU != nil && w.CPUFull != nil && *w.CPUFull > 0 {
		waited *= *w.CPU / (*w.CPU + *w.CPUFull)
	}
	return waited / w.moving()
}

// moving is the time of a task in seconds without that in which others had the CPU.
func (w Waits) moving() float64 {
	seconds := w.Wall.Seconds()
	if w.CPUFull == nil {
		return seconds
	}
	return max(seconds/10, seconds-*w.CPUFull)
}

// left reports whether the task has waits that are not known, of processes that have left its cgroup.
func (w Waits) left() bool { return w.Left != nil && *w.Left > 0 }

// ThrottledAbove reports whether a quota of a group above the task cost it more than its own.
func (w Waits) ThrottledAbove() bool {
	own, above := w.throttledShares()
	return above > own
}

// throttledShares are the shares of the wall time that the task's own quota cost and those of groups above it. A task
// that did not wait for a CPU was not held back by what the group above held back of others.
func (w Waits) throttledShares() (own, above float64) {
	own, above = w.throttledShare(w.Throttled), w.throttledShare(w.AncestorThrottled)
	switch {
	case w.CPUSome != nil:
		above = min(above, w.share(w.CPUSome))
	case w.share(w.CPU) < idleCores: // it may not have waited
		above = 0
	}
	return own, above
}

// throttledShare is the share of the wall time that a quota cost. Several CPUs that are held back at once cost it
// once: then it is the part that is missing of the CPU time that was wanted.
func (w Waits) throttledShare(throttled *float64) float64 {
	share := min(1, w.share(throttled))
	if w.CPU == nil || share == 0 {
		return share
	}
	return min(share, *throttled/(*throttled+*w.CPU))
}

// share returns seconds as a share of the wall time; 0 where they were not measured.
func (w Waits) share(seconds *float64) float64 {
	if seconds == nil {
		return 0
	}
	return *seconds / w.Wall.Seconds()
}

// Throttling says how long the quotas of the run's cgroup and of cgroups above it held processes back; nil if none did.
func (r *Record) Throttling() []string { return Throttling(r.measured) }

// Throttling is that of readings.
func Throttling(number func(procstats.ID) (value float64, ok bool)) (parts []string) {
	if throttled, _ := number(procstats.CgroupCPUThrottled); throttled > 0 {
		parts = append(parts, "throttled by its CPU quota for "+procstats.Seconds.Text(throttled)+", summed over CPUs")
	}
	effective, text := procstats.CgroupCPUQuotaEffective, "a CPU quota above its cgroup"
	throttled, ok := number(procstats.CgroupCPUAncestorThrottled)
	if !ok {
		effective, text = procstats.CgroupCPUInheritedQuota, "a CPU quota of the cgroup it was started in"
		throttled, ok = number(procstats.CgroupCPUInheritedThrottled)
	}
	if !ok || throttled == 0 {
		return parts
	}
	if quota, ok := number(effective); ok {
		text += " (effective " + procstats.Cores.Text(quota) + ")"
	}
	return append(parts, text+" throttled for "+procstats.Seconds.Text(throttled)+", summed over CPUs")
}
