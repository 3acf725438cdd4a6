// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Usage is one line of usage.jsonl: what the task used from one report to the next. Between one line's To and
// the next line's From nothing was measured: a gap, never a zero.
type Usage struct {
	SchemaVersion string    `json:"schema_version"`
	From          time.Time `json:"from"`
	To            time.Time `json:"to"`
	// FromMono and ToMono are the same moments on CLOCK_MONOTONIC, in seconds since boot: rates divide by
	// their difference.
	FromMono float64 `json:"from_mono"`
	ToMono   float64 `json:"to_mono"`
	// Samples counts the collections between From and To.
	Samples int64 `json:"samples"`
	// Measurements maps a table name to what is left of its readings; Absent says why the others have none.
	Measurements map[string]Reduced       `json:"measurements"`
	Absent       map[string]string        `json:"absent,omitempty"`
	Headline     map[string]HeadlineValue `json:"headline,omitempty"`
	Processes    *UsageProcesses          `json:"processes,omitempty"`
	// Commands is what all processes used that ended from the start of the task to To, by command: at most 20 rows,
	// and others. It is absent if that is not counted.
	Commands *Commands `json:"commands,omitempty"`
}

// Reduced is what is left of one measurement's readings over a window, in the unit of its row. Which fields are
// set follows from the kind: last, min, max and mean of a gauge, last, delta and rate of a counter, text of a
// label, tally of a category. A field that is nil was not measured.
type Reduced struct {
	Last *float64 `json:"last,omitempty"`
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`
	Mean *float64 `json:"mean,omitempty"`
	// Delta is the growth of a counter within the window, Rate the same per second.
	Delta *float64 `json:"delta,omitempty"`
	Rate  *float64 `json:"rate,omitempty"`
	// Text is the last value of a label.
	Text *string `json:"text,omitempty"`
	// Tally counts the samples in which each state of a category was seen.
	Tally map[string]int64 `json:"tally,omitempty"`
}

// Value returns one reduction; ok is false where it was not measured or has no number.
func (r Reduced) Value(reduction procstats.Reduction) (value float64, ok bool) {
	field := r.field(reduction)
	if field == nil || *field == nil {
		return 0, false
	}
	return **field, true
}

// field returns where a reduction is; nil for one that is not a number.
func (r *Reduced) field(reduction procstats.Reduction) **float64 {
	return [...]**float64{
		procstats.Last: &r.Last, procstats.Min: &r.Min, procstats.Max: &r.Max, procstats.Mean: &r.Mean,
		procstats.Delta: &r.Delta, procstats.Rate: &r.Rate, procstats.Tally: nil,
	}[reduction]
}

// UsageProcesses is the task's CPU time by process at the end of a window: the last CPU readings of the rows,
// exited and unattributed add up to the total.
type UsageProcesses struct {
	Rows   []UsageRow `json:"rows"`
	Exited ProcessSum `json:"exited"`
	// UnattributedCPUSeconds closes the sum: short-lived processes that no sample saw, and live ones without a row.
	// Signed.
	UnattributedCPUSeconds *float64 `json:"unattributed_cpu_seconds"`
	TotalCPUSeconds        *float64 `json:"total_cpu_seconds"`
	// Omitted counts live processes without a row.
	Omitted int `json:"omitted,omitempty"`
}

// UsageRow is one process over a window.
type UsageRow struct {
	PID          int                `json:"pid"`
	StartTicks   uint64             `json:"start_ticks"`
	PPID         int                `json:"ppid"`
	Command      string             `json:"command"`
	Measurements map[string]Reduced `json:"measurements"`
	// States counts the samples in which the process was seen in each state of process_state.
	States map[string]int64 `json:"states,omitempty"`
}
