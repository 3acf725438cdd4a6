// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Evidence is everything a diagnosis may look at. It is gathered by the executor; Diagnose reads nothing else.
type Evidence struct {
	// Cause is why we ended the task: Stopped, TimedOut, StartFailed, ExecutorLost; empty where we did not.
	Cause Verdict
	// Reason says in words why Cause came about, such as "the process that started it is gone"; may be empty.
	Reason string
	// AfterMain reports that the main process had ended by itself when Cause came, to which only what it left behind
	// ended.
	AfterMain bool
	// ExitCode is the main process's exit code, 128 + Signal where a signal ended it.
	ExitCode int
	// Signal is the number of the signal that ended the main process; 0 where none did.
	Signal int
	// Forwarded is the last signal that was sent to the main process through us; 0 for none.
	Forwarded int
	// EndedAt is when the main process ended.
	EndedAt time.Time
	// Timeout is the time after which the task was to be stopped; 0 for none.
	Timeout time.Duration
	// Wall is the time from the start to EndedAt, Span to the end of the last process, which may be later: what was
	// counted until After was counted in that time.
	Wall, Span time.Duration
	// WaitedForAll reports that the run goes on until its last process ends, not the main one.
	WaitedForAll bool
	// Leftovers are how many processes of each command outlived the main one and were stopped.
	Leftovers Leftovers
	// Before and After are the totals at the start and at the end; nil where they could not be read.
	Before, After *procstats.Sample
	// Last is the last sample, with its headlines; nil where nothing was sampled. One that was taken when no process
	// was left is ignored.
	Last          *procstats.Sample
	LastHeadlines []procstats.HeadlineValue
	// LastAge is how old Last was when the last process ended, or when the main one was killed for lack of memory.
	LastAge time.Duration
	// Cores are the core dumps of the task.
	Cores []Core
	// Throttler is the path of the cgroup above the task's whose CPU quota throttled most; empty if none did.
	Throttler string
	// OOMBefore and OOMAfter are the kernel's OOM counters at the start and at the end.
	OOMBefore, OOMAfter OOMCounters
	// Kills are the OOM kills that were noticed, oldest first.
	Kills []Kill
	// Killers are programs that run on this host and send SIGKILL where memory is short: systemd-oomd, earlyoom.
	Killers []string
}

// LastOf returns the newer of the last two samples that says what the task used before its end, with the one before it,
// and sets LastAge. One from after an OOM kill that ended the main process, or came shortly before its end, has only
// what was left.
func (e *Evidence) LastOf(last, previous *procstats.Sample) (chosen, before *procstats.Sample) {
	kill, killedMain := DecisiveKill(*e)
	end := e.EndedAt.Add(e.Span - e.Wall)
	if last != nil && kill != nil && (killedMain || end.Sub(kill.At) < deathDelay) {
		end = kill.At
		kills, counted := last.Task.Number(procstats.CgroupMemoryEventsOOMKill)
		if counted && int64(kills) > e.OOMAfter.Kills-max(1, kill.Kills) {
			last, previous = previous, nil
		}
	}
	if last != nil {
		e.LastAge = end.Sub(last.Wall)
	}
	return last, previous
}

// EndAt corrects the end of the last process, which is noticed late, to when the kernel says it was, of those in the
// cgroup. It reports whether the end is known now. The final totals say if one ended elsewhere.
func (e *Evidence) EndAt(last time.Time, totals *procstats.Sample) (known bool) {
	late := e.EndedAt.Add(e.Span - e.Wall).Sub(last)
	outside, _ := totals.Task.Number(procstats.RusageOutside)
	if last.IsZero() || late >= e.Span || outside > 0 {
		return false
	}
	late = max(0, late) // it ran for the last time after it could be reaped
	if e.Wall == e.Span {
		e.Wall, e.EndedAt = e.Wall-late, e.EndedAt.Add(-late)
	}
	e.Span -= late
	return true
}

// OOMCounters are the kernel's counters of OOM events at one moment: those of the task's memory cgroup, of the
// groups below it and of the visible groups above it. On version 1, which has no such counters for limits, they
// count notifications.
type OOMCounters struct {
	// Read reports that the counters were read: the numbers mean nothing where they were not, and Reason says why.
	Read   bool
	Reason string
	// Kills counts the task's processes that any OOM killer has ended. Where GroupKills grew, or Grouped is set,
	// it is not the number of processes: the kernel counts the chosen one twice.
	Kills int64
	// GroupKills counts how often a cgroup of the task was killed as a whole, memory.oom.group.
	GroupKills int64
	// Grouped reports that a visible group above the task has memory.oom.group on.
	Grouped bool
	// Own counts how often the task's own limit left the kernel no way but the OOM killer, Below the same for
	// limits that the task set on groups below its own, Above for the groups above it, the nearest first.
	Own, Below int64
	Above      []int64
}

func (c OOMCounters) above() (hits int64) {
	for _, count := range c.Above {
		hits += count
	}
	return hits
}

// Hits counts how often a limit of any visible group was hit.
func (c OOMCounters) Hits() int64 { return c.Own + c.Below + c.above() }

// Kill is one notice of an OOM kill: several processes can be killed before we look.
type Kill struct {
	At time.Time `json:"at"`
	// Kills is by how much the kernel's counter rose; 0 where only the kernel's log tells of the kill.
	Kills int64 `json:"kills"`
	// Group reports that a whole cgroup was killed: Kills is not the number of processes then.
	Group bool  `json:"group,omitempty"`
	Scope Scope `json:"scope"`
	// Victims are the processes that are known to have been chosen.
	Victims []Victim `json:"victims,omitempty"`
	// Main reports that the main process is known to be one of them, Others that it is known to have lived on.
	Main   bool `json:"main,omitempty"`
	Others bool `json:"others,omitempty"`
	// LimitBytes is the limit that was hit and Where the group that has it; nil where not known.
	LimitBytes *int64 `json:"limit_bytes"`
	Where      string `json:"where,omitempty"`
	// PeakBytes is the most that the task's own group was ever charged, until then.
	PeakBytes *int64 `json:"peak_bytes"`
	// HeadroomBytes is what was left between PeakBytes and the task's own limit; nil where it has none.
	HeadroomBytes *int64 `json:"headroom_bytes"`
	// Reason says why no victim is known, where none is.
	Reason string `json:"reason,omitempty"`
}

// Victim returns the process that a kill was about: of a cgroup that was killed as a whole the one that the kernel
// chose, else the main process if it is among the victims, else the first of them; nil if none is known.
func (k *Kill) Victim() *Victim {
	if len(k.Victims) == 0 {
		return nil
	}
	if i := slices.IndexFunc(k.Victims, func(v Victim) bool { return v.Chosen }); k.Group && i >= 0 {
		return &k.Victims[i]
	}
	return &k.Victims[0]
}

// ScopeOf says whose limit led to OOM kills, from the counters before and after them.
//
// The kernel's log goes first if it reports the kill (logged is what it says, empty if nothing): it names
// the group. Else the counter that moved says it, the nearest to the task first. Where none moved although no limit
// can be hit unseen (seesAll: every group up to the real root of the hierarchy is visible, or all would have
// shown it) it was the memory of the machine; where ancestors are hidden it was one of the two.
func ScopeOf(before, after OOMCounters, logged Scope, seesAll bool) Scope {
	_, above := HitAbove(before, after)
	switch {
	case logged != "":
		return logged
	case after.Own > before.Own:
		return Own
	case after.Below > before.Below:
		return Descendant
	case above:
		return Ancestor
	case seesAll:
		return HostScope
	}
	return AncestorOrHost
}

// HitAbove returns the index in Above of the nearest group whose limit was hit between two moments; ok is false
// where none was.
func HitAbove(before, after OOMCounters) (i int, ok bool) {
	for i, count := range after.Above {
		if i < len(before.Above) && count > before.Above[i] {
			return i, true
		}
	}
	return 0, false
}
