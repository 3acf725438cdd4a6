// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package series keeps the numbers of a task's past readings: a ring of fixed size in a file, which outlives the
// agent, with gaps kept as gaps.
package series

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Point is one reading, or a mark that there was none.
type Point struct {
	procstats.Stamp
	// Run counts the starts of the task: counters begin anew with each.
	Run int
	// Gap says why nothing was read between the point before and the one after; such a point has no values.
	Gap Gap
	// Values are the numbers of the task by measurement; what is absent was not measured.
	Values map[procstats.ID]float64
	// Processes are the largest processes, by PID: see [Top]. Nil if the query did not ask for them. A process that is
	// not among them may have been there all the same.
	Processes []procstats.ProcessRow
}

// Gap says why there are no readings.
type Gap uint8

const (
	// NoGap is a reading.
	NoGap Gap = iota
	// GapAgent is a time without the agent.
	GapAgent
	// GapPublishing is a time in which publishing was off.
	GapPublishing
	// GapTask is a time in which the task did not run.
	GapTask
	// GapSilent is a time in which the driver sent no sample.
	GapSilent
	// GapDropped is a time whose readings were dropped because the disk was too slow.
	GapDropped
	// GapOOM is a time in which the task did not run after the kernel had killed it for its memory.
	GapOOM
)

// String returns the gap in words.
func (g Gap) String() string {
	words := [...]string{
		NoGap: "", GapAgent: "the agent was not running", GapPublishing: "publishing was off", GapTask: "the task was not running",
		GapSilent: "the driver sent no sample", GapDropped: "readings were dropped: the disk did not keep up",
		GapOOM: "the task was not running, after an OOM kill",
	}
	if int(g) >= len(words) {
		return "unknown"
	}
	return words[g]
}

// Query selects points.
type Query struct {
	// Nearest selects the one reading nearest to a time, of two that are as near the earlier one; the other fields that
	// select then say nothing. Zero selects by them.
	Nearest time.Time
	// Since and Until bound the time; zero for no bound.
	Since, Until time.Time
	// Step thins out: at most one reading in each step, its last; 0 for all. Gaps are always kept.
	Step time.Duration
	// Most is about how many readings are wanted; 0 is all. Where there are more, the step is as long as that needs.
	Most int
	// Processes asks for the processes of the points.
	Processes bool
}
