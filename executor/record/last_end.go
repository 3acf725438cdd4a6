// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Text is the outcome as people read it: "timed out".
func (o Outcome) Text() string { return strings.ReplaceAll(string(o), "_", " ") }

// LastEnd is what every list of tasks says of the last end of a task, beside the number of its restarts.
type LastEnd struct {
	Outcome Outcome `json:"outcome"`
	// Cause is on whose account the task ended: task, operator or host; empty if unknown.
	Cause string    `json:"cause,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Problem reports whether the end needs attention: a success does not, nor does an end that an operator requested.
func (e LastEnd) Problem() bool {
	return e.Outcome != "" && !e.Outcome.Success() && e.Outcome != Outcome(Stopped) && e.Cause != "operator"
}

// Word is the end in a word, with the account that it was on if that is not the task's own: "oom-killed", "stopped
// (operator)".
func (e LastEnd) Word() string {
	if e.Cause == "" || e.Cause == "task" || e.Outcome == "" {
		return e.Outcome.Text()
	}
	return e.Outcome.Text() + " (" + e.Cause + ")"
}

// Text is the end in its word with its age, "oom-killed 38 s ago"; empty before the first end.
func (e LastEnd) Text(now time.Time) string {
	if e.At.IsZero() {
		return e.Word()
	}
	return Join(" ", e.Word(), Ago(now.Sub(e.At)))
}

// Ago says how long ago something was, to the minute from one minute on.
func Ago(d time.Duration) string {
	if d >= time.Minute {
		d = d.Truncate(time.Minute)
	}
	return procstats.AgeText(d) + " ago"
}

// Card says in at most three lines how a task ended, what was observed, and what can be done.
func (e End) Card() (lines []string) {
	for _, line := range []string{e.Summary, Join("; ", e.OOM, e.LastReading), e.Remedy} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
