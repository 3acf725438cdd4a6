// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

const sigkill = 9

// deathDelay is how long a process may take from its SIGKILL to its end if the victim is not reported: giving
// back a large memory takes seconds.
const deathDelay = 10 * time.Second

// Diagnose says why a task ended. The rules are in docs/diagnosis.md.
func Diagnose(e Evidence) Diagnosis {
	if e.Last != nil && !Inhabited(e.Last) {
		e.Last, e.LastHeadlines = nil, nil
	}
	d := Diagnosis{
		Verdict: verdict(e), Reason: e.Reason, AfterMain: e.AfterMain, ForwardedSignal: e.Forwarded, Killers: e.Killers,
		Cores: e.Cores, Leftovers: e.Leftovers,
		LastReading: lastReading(e),
	}
	if d.Verdict == TimedOut {
		d.TimeoutSeconds = e.Timeout.Seconds()
	}
	waits := WaitsBetween(e.Before, e.After, e.Span)
	if d.Stall = StallOf(waits); d.Stall == CPUThrottled && waits.ThrottledAbove() {
		d.ThrottledBy = procstats.EscapeName(e.Throttler)
	}
	if d.Stall == MemoryThrashing && waits.thrashing() {
		d.Thrashing = thrashing(e, *waits.MemorySome)
	}
	d.Forks = refusedForks(e)
	kill, killedMain := DecisiveKill(e)
	d.OOM = oom(e, kill)
	d.OOM.Main = killedMain
	if kill != nil {
		failed := killedMain || failedByItself(e)
		switch kill.Scope {
		case Own, Descendant, "": // a foreign driver that says no more
			d.OOMKilled = failed
		case Ancestor, HostScope, AncestorOrHost:
			d.Retryable = failed
		}
	}
	end := describer{d: &d, exitCode: e.ExitCode, signal: e.Signal}.end()
	d.Outcome, d.Summary, d.Operator = end.Outcome, end.Summary, end.Operator()
	d.Evidence = numbers(e)
	return d
}

// refusedForks returns nil if none were, or if that was not counted.
func refusedForks(e Evidence) *RefusedForks {
	refused := e.growth(procstats.CgroupPidsEventsMax)
	if refused <= 0 {
		return nil
	}
	forks := &RefusedForks{Count: int64(refused)}
	if limit, set := e.After.Task.Number(procstats.CgroupPidsMax); set {
		forks.Limit = new(int64(limit))
	}
	return forks
}

// growth is how much a counter grew during the run; 0 if it was not read.
func (e Evidence) growth(id procstats.ID) float64 {
	if e.After == nil {
		return 0
	}
	var before float64
	if e.Before != nil {
		before, _ = e.Before.Task.Number(id)
	}
	after, _ := e.After.Task.Number(id)
	return after - before
}

// thrashing finds the limit at which a task waited for memory.
func thrashing(e Evidence, waited float64) *Thrashing {
	t := &Thrashing{WaitedSeconds: waited, SpanSeconds: e.Span.Seconds()}
	for _, limit := range []struct {
		name     MemoryLimit
		size, by procstats.ID
	}{
		{MemoryHigh, procstats.CgroupMemoryHigh, procstats.CgroupMemoryEventsHigh},
		{MemoryMax, procstats.CgroupMemoryMax, procstats.CgroupMemoryEventsMax},
		{MemoryMax, procstats.CgroupMemoryMax, procstats.CgroupMemoryFailcnt},
	} {
		if bytes, set := e.After.Task.Number(limit.size); set && e.growth(limit.by) > 0 {
			t.Limit, t.LimitBytes = limit.name, int64(bytes)
			break
		}
	}
	return t
}

// Inhabited reports whether a task had a process when it was sampled; true if the sample does not tell.
func Inhabited(s *procstats.Sample) bool {
	tasks, counted := s.Task.Number(procstats.CgroupPidsCurrent)
	processes, listed := s.Task.Number(procstats.TreeProcesses)
	if !listed {
		processes, listed = s.Task.Number(procstats.PortableProcesses)
	}
	return tasks > 0 || processes > 0 || !counted && !listed
}

func lastReading(e Evidence) *LastReading {
	if e.Last == nil {
		return nil
	}
	l := &LastReading{AgeSeconds: max(0, e.LastAge).Seconds()}
	for _, h := range e.LastHeadlines {
		switch h.ID {
		case procstats.HeadlineMemory:
			l.MemoryBytes = Known(h.Reading.Number())
		case procstats.HeadlineCores:
			l.Cores = Known(h.Reading.Number())
		}
	}
	return l
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

// failedByItself reports that the main process failed without a signal of others. The sender of a SIGKILL is unknown.
func failedByItself(e Evidence) bool {
	onRequest := e.Signal != 0 && e.Signal == e.Forwarded
	return e.Cause == "" && e.Signal != sigkill && !onRequest && (e.ExitCode != 0 || e.Signal != 0)
}

// DecisiveKill returns the kill that ended the main process, else the last one; nil where there was none.
//
// Where it is not known whom a kill chose, a main process that ended by SIGKILL soon after it is taken for the one:
// unless we sent that signal ourselves. A kill may be noticed a little after that end, and one that came later was of
// another process.
func DecisiveKill(e Evidence) (kill *Kill, killedMain bool) {
	kill = decisive(e.Kills)
	if kill == nil || kill.Main {
		return kill, kill != nil
	}
	unsent := e.Signal == sigkill && e.Forwarded != sigkill && e.Cause == ""
	after := e.EndedAt.Sub(kill.At)
	return kill, unsent && !kill.Others && !kill.allKnown() && after <= deathDelay && after >= -noticeDelay
}

// noticeDelay is how long after a kill it may be noticed.
const noticeDelay = 2 * time.Second

// allKnown reports whether the kernel names all victims, by numbers that can be compared with that of the main process.
func (k *Kill) allKnown() bool {
	unnamed := func(v Victim) bool { return v.Source != FromKmsg || v.Namespace != "" }
	return int64(len(k.Victims)) >= max(1, k.Kills) && !slices.ContainsFunc(k.Victims, unnamed)
}

// decisive returns the first kill that is known to have been of the main process, else the last one.
func decisive(kills []Kill) *Kill {
	for i := range kills {
		if kills[i].Main || i == len(kills)-1 {
			return &kills[i]
		}
	}
	return nil
}

func oom(e Evidence, decisive *Kill) OOM {
	o := OOM{Reason: e.OOMAfter.Reason, Notices: e.Kills}
	if decisive != nil {
		o.Scope = decisive.Scope
		o.Victim = decisive.Victim()
		o.Group = slices.ContainsFunc(e.Kills, func(k Kill) bool { return k.Group })
	}
	var noticed int64
	for _, kill := range e.Kills {
		noticed += max(kill.Kills, 1)
	}
	counted := e.OOMAfter.Read && e.OOMBefore.Read
	switch {
	case counted && !o.Group:
		o.Kills = new(e.OOMAfter.Kills - e.OOMBefore.Kills)
	case counted || noticed > 0:
		o.Kills = &noticed
	case o.Reason == "":
		o.Reason = cmp.Or(e.OOMBefore.Reason, "nothing was counted")
	}
	if o.Kills != nil && o.Victim == nil && decisive != nil {
		o.Reason = decisive.Reason
	}
	return o
}

// numbers are the evidence by name. Measurements have their names in the table, with _before and _after.
func numbers(e Evidence) map[string]any {
	n := map[string]any{}
	for _, id := range []procstats.ID{
		procstats.CgroupMemoryEventsHigh, procstats.CgroupMemoryEventsMax, procstats.CgroupMemoryEventsOOM,
		procstats.CgroupMemoryFailcnt,
	} {
		putNumber(n, id.String()+"_before", e.Before, id)
		putNumber(n, id.String()+"_after", e.After, id)
	}
	for _, id := range []procstats.ID{
		procstats.CgroupMemoryMax, procstats.CgroupMemoryHigh, procstats.CgroupMemoryPeak, procstats.CgroupPidsMax,
		procstats.CgroupCPUQuota, procstats.CgroupCPUQuotaEffective,
	} {
		putNumber(n, id.String(), e.After, id)
	}
	if e.Last != nil {
		n["last_sample_age_seconds"] = e.LastAge.Seconds()
		for _, id := range []procstats.ID{procstats.CgroupMemoryCurrent, procstats.TreeRSS, procstats.TreeProcesses} {
			putNumber(n, "last_sample_"+id.String(), e.Last, id)
		}
	}
	if e.OOMBefore.Read && e.OOMAfter.Read {
		n["oom_kill_before"], n["oom_kill_after"] = e.OOMBefore.Kills, e.OOMAfter.Kills
		n["oom_group_kill_before"], n["oom_group_kill_after"] = e.OOMBefore.GroupKills, e.OOMAfter.GroupKills
		n["oom_own_limit"] = e.OOMAfter.Own - e.OOMBefore.Own
		n["oom_limits_below"] = e.OOMAfter.Below - e.OOMBefore.Below
		n["oom_limits_above"] = e.OOMAfter.above() - e.OOMBefore.above()
	}
	return n
}

func putNumber(into map[string]any, name string, s *procstats.Sample, id procstats.ID) {
	if s == nil {
		return
	}
	if value, ok := s.Task.Number(id); ok {
		into[name] = value
	}
}
