// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"fmt"
	"syscall"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Evidence is everything a diagnosis may look at. It is gathered by the executor; Diagnose reads nothing else.
type Evidence struct {
	// Cause is why we ended the task: Stopped, TimedOut, StartFailed, ExecutorLost; empty where we did not.
	Cause Verdict
	// ExitCode is the main process's exit code, 128 + Signal where a signal ended it.
	ExitCode int
	// Signal is the number of the signal that ended the main process; 0 where none did.
	Signal int
	Wall   time.Duration
	// Before and After are the totals at the start and at the end; nil where they could not be read.
	Before, After *procstats.Sample
	// Last is the last sample while the main process lived; nil where nothing was sampled.
	Last *procstats.Sample
	// LastAge is how old Last was when the main process ended.
	LastAge time.Duration
}

// Diagnose says why a task ended.
func Diagnose(e Evidence) Diagnosis {
	d := Diagnosis{Verdict: verdict(e), Evidence: map[string]any{}}
	d.OOM = oom(e)
	d.Summary = summary(e, d)
	return d
}

func verdict(e Evidence) Verdict {
	switch {
	case e.Cause != "":
		return e.Cause
	case e.Signal != 0:
		return Signaled
	case e.ExitCode != 0:
		return Failed
	}
	return Completed
}

func oom(e Evidence) OOM {
	if e.After == nil {
		return OOM{Reason: "the counters at the end were not read"}
	}
	after, found := e.After.Task.Get(procstats.CgroupMemoryEventsOOMKill)
	if !after.Present() {
		reason := "OOM kills are counted by a memory cgroup, and the task has none"
		if found {
			reason = after.Reason()
		}
		return OOM{Reason: reason}
	}
	kills, _ := after.Number()
	if e.Before != nil {
		if before, ok := e.Before.Task.Number(procstats.CgroupMemoryEventsOOMKill); ok {
			kills -= before
		}
	}
	count := int64(kills)
	return OOM{Kills: &count}
}

func summary(e Evidence, d Diagnosis) string {
	var text string
	switch d.Verdict {
	case Completed:
		text = "completed with exit code 0"
	case Failed:
		text = fmt.Sprintf("failed with exit code %d", e.ExitCode)
	case Signaled:
		text = "ended by signal " + signalName(e.Signal)
	case Stopped:
		text = "stopped on request"
	case TimedOut:
		text = "stopped because its time was up"
	case StartFailed:
		text = "could not be started"
	case ExecutorLost:
		text = "lost its executor; how the main process ended is not known"
	}
	if d.OOM.Kills != nil && *d.OOM.Kills > 0 {
		text += fmt.Sprintf("; OOM kills: %d", *d.OOM.Kills)
	}
	return text
}

func signalName(signal int) string {
	return fmt.Sprintf("%d (%s)", signal, syscall.Signal(signal))
}
