// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"fmt"
	"slices"
)

// Kind says what a measurement is, and so which reductions over a window mean anything.
type Kind uint8

const (
	// Gauge is a number that goes up and down: bytes in use, processes alive.
	Gauge Kind = iota + 1
	// Counter only grows while its source lives: CPU seconds, bytes written.
	Counter
	// Label is a text that says what something is: a command name.
	Label
	// Category is a text out of few that changes over time: a process state.
	Category
)

// String returns the kind's word as it stands in docs and JSON.
func (k Kind) String() string {
	return wordOf("kind", uint8(k), 1, "gauge", "counter", "label", "category")
}

// Reduction turns the readings of one measurement over a window into one value.
type Reduction uint8

const (
	// Last is the newest reading that was taken.
	Last Reduction = iota + 1
	// Min is the smallest reading of a gauge.
	Min
	// Max is the largest reading of a gauge.
	Max
	// Mean is the arithmetic mean of a gauge's readings.
	Mean
	// Delta is how much a counter grew over the window.
	Delta
	// Rate is Delta divided by the time between the source's own reads, per second.
	Rate
	// Tally counts in how many samples each state of a category was seen.
	Tally
)

// String returns the reduction's word as it stands in docs and JSON.
func (r Reduction) String() string {
	return wordOf("reduction", uint8(r), 1, "last", "min", "max", "mean", "delta", "rate", "tally")
}

// wordOf returns one of the words for the codes from first on; another code is of a newer build and is shown as what
// it is.
func wordOf(what string, code, first uint8, words ...string) string {
	if i := int(code) - int(first); i >= 0 && i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("%s(%d)", what, code)
}

// Reductions lists what may be asked of a measurement of this kind, the customary one first.
func (k Kind) Reductions() []Reduction {
	switch k {
	case Gauge:
		return []Reduction{Last, Min, Max, Mean}
	case Counter:
		return []Reduction{Delta, Rate, Last}
	case Label:
		return []Reduction{Last}
	case Category:
		return []Reduction{Tally}
	}
	return nil
}

// Allows reports whether r means anything for measurements of this kind.
func (k Kind) Allows(r Reduction) bool {
	return slices.Contains(k.Reductions(), r)
}

// Unit is what a number counts. Numbers are converted to it once, where the kernel file is read.
type Unit uint8

const (
	// None is a plain number, or a text.
	None Unit = iota
	// Seconds are SI seconds.
	Seconds
	// Bytes are octets.
	Bytes
	// Cores are CPUs kept busy: 1.0 is one core for the whole time.
	Cores
	// BytesPerSecond are octets in a second: the rate of a counter of Bytes.
	BytesPerSecond
	// Share is a part of a whole, which is 1.
	Share
	// Time is a moment, in seconds since 1970. Its word is that of Seconds, which its numbers are; only its text differs.
	Time
)

// String returns the unit's word as it stands in docs; empty for None.
func (u Unit) String() string {
	return wordOf("unit", uint8(u), 0, "", "seconds", "bytes", "cores", "bytes per second", "share", "seconds")
}

// Difference returns the unit of a difference of two values: that of moments is a span of time.
func (u Unit) Difference() Unit {
	if u == Time {
		return Seconds
	}
	return u
}

// Guarantee says how a value relates to the truth.
type Guarantee string

const (
	// Exact values are the kernel's own accounting of the thing that is named.
	Exact Guarantee = "exact"
	// LowerBound values can miss something and never count too much.
	LowerBound Guarantee = "lower_bound"
	// UpperBound values can count too much and never miss anything.
	UpperBound Guarantee = "upper_bound"
	// Sampled values are right at the moments of reading and say nothing about the time between.
	Sampled Guarantee = "sampled"
)

// WalkComplete is the text of DiskWalk if the walk has looked at all there is.
const WalkComplete = "complete"

// ReasonVacuous is what is to be said of a value that is Vacuous.
const ReasonVacuous = "at least 0, which is all that its source can say"

// Vacuous reports whether a value that is never negative says nothing: a lower bound of 0. It is shown like one that
// is absent.
func (g Guarantee) Vacuous(value float64) bool { return g == LowerBound && value == 0 }

// Scope says whose measurement it is.
type Scope uint8

const (
	// TaskScope measurements exist once in a sample.
	TaskScope Scope = iota + 1
	// ProcessScope measurements exist once in each process row.
	ProcessScope
	// HeadlineScope values are chosen from the task's measurements by a documented order of preference.
	HeadlineScope
)

// String returns the scope's word as it stands in docs and JSON.
func (s Scope) String() string {
	return wordOf("scope", uint8(s), 1, "task", "process", "headline")
}

// SourceID names a group of kernel files that are read together.
type SourceID uint8

const (
	// SourceNone is the source of headlines, which are chosen and not read.
	SourceNone SourceID = iota
	// SourceCgroup reads the task's control group, version 1 or 2.
	SourceCgroup
	// SourcePSI reads the pressure files of the task's control group.
	SourcePSI
	// SourceTree reads every process of the task: its CPU clock, stat and statm.
	SourceTree
	// SourceSmaps reads smaps_rollup on a slow, budgeted clock.
	SourceSmaps
	// SourceIO reads /proc/PID/io.
	SourceIO
	// SourceDisk walks the task's own folder on a slow clock.
	SourceDisk
	// SourceRusage is the resource usage of processes that the executor reaped, wait4(2).
	SourceRusage
	// SourceExecutor is what the measuring itself costs.
	SourceExecutor
	// SourcePortable is gopsutil, for systems that have no reader of our own.
	SourcePortable
	// SourceHugetlb reads how many huge pages the task holds, while any are in use on the machine.
	SourceHugetlb
	// SourceExits is the kernel's final account of every process that ended in the task's cgroup; a record alone has it.
	SourceExits
	// SourceSkb counts the packets of the task's control group.
	SourceSkb

	sourceCount
)

// String returns the source's name as it stands in the table, in JSON and in docs.
func (s SourceID) String() string {
	return wordOf("source", uint8(s), 0, "", "cgroup", "psi", "tree", "smaps", "io", "disk", "rusage", "executor",
		"portable", "hugetlb", "exits", "skb")
}

// Known reports whether it is one of the above.
func (s SourceID) Known() bool { return s < sourceCount }

// Set names measurements of one source that are measured, or absent, together.
type Set uint8

const (
	// OutsideSet is about processes that run outside the task's cgroup, or have joined it.
	OutsideSet Set = iota + 1
	// RunQueueSet is what the scheduler counts of each thread.
	RunQueueSet
)

// SourceDescription says what a source is on this machine and for this task.
type SourceDescription struct {
	ID SourceID
	// Version distinguishes kinds of the same source: "v1", "v2", "hybrid", a library's version; may be empty.
	Version string
	// Available reports whether at least one measurement can be read.
	Available bool
	// Reason says in words why not, and what would enable it; empty where available.
	Reason string
}
