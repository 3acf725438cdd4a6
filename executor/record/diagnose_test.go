// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func ended() time.Time { return time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC) }

// killOf returns a kill shortly before the end, with what the kernel's log says of it.
//
//go:fix inline
func killOf(scope Scope, change func(*Kill)) Kill {
	k := Kill{
		At: ended().Add(-20 * time.Millisecond), Kills: 1, Scope: scope, PeakBytes: new(int64(108 << 20)),
		Victims: []Victim{{PID: 79699, Command: "php-fpm", RSSBytes: new(int64(90 << 20)), Source: FromKmsg}},
	}
	if scope == Own || scope == Descendant || scope == Ancestor {
		k.LimitBytes, k.Where = new(int64(108<<20)), "/sys/fs/cgroup/web"
	}
	if change != nil {
		change(&k)
	}
	return k
}

func ofMain(k *Kill) { k.Main = true }

func ofOthers(k *Kill) { k.Others = true }

func unnamed(k *Kill) { k.Victims, k.Reason = nil, "the kernel's log cannot be read" }

func counted(kills int64) (before, after OOMCounters) {
	return OOMCounters{Read: true, Kills: 7, Own: 2, Above: []int64{1, 0}},
		OOMCounters{Read: true, Kills: 7 + kills, Own: 2 + kills, Above: []int64{1, 0}}
}

// evidenceOf returns evidence with as many counted kills as were noticed.
func evidenceOf(e Evidence, kills ...Kill) Evidence {
	e.EndedAt, e.Wall, e.Span, e.Kills = ended(), 10*time.Second, 10*time.Second, kills
	if e.OOMAfter.Reason == "" {
		var n int64
		for _, k := range kills {
			n += k.Kills
		}
		e.OOMBefore, e.OOMAfter = counted(n)
	}
	return e
}

// TestVerdicts holds how the main process ended against the sentence about it, without any OOM kill.
func TestVerdicts(t *testing.T) {
	noCounters := OOMCounters{Reason: "the task has no memory cgroup"}
	tests := []struct {
		name    string
		e       Evidence
		verdict Verdict
		summary string
	}{
		{"completed", Evidence{}, Completed, "Completed with exit code 0"},
		{"failed", Evidence{ExitCode: 3}, Failed, "Failed with exit code 3"},
		{"signaled", Evidence{ExitCode: 139, Signal: 11}, Signaled, "Terminated by signal 11 (SIGSEGV)"},
		{"a real-time signal", Evidence{ExitCode: 170, Signal: 42}, Signaled, "Terminated by signal 42 (SIGRTMIN+8)"},
		{
			"forwarded",
			Evidence{ExitCode: 143, Signal: 15, Forwarded: 15},
			Signaled,
			"Terminated by signal 15 (SIGTERM), forwarded on request",
		},
		{
			"SIGKILL from outside",
			Evidence{ExitCode: 137, Signal: 9},
			Signaled,
			"Terminated by signal 9 (SIGKILL), not by the kernel's OOM killer",
		},
		{
			"SIGKILL where earlyoom runs",
			Evidence{ExitCode: 137, Signal: 9, Killers: []string{"earlyoom"}},
			Signaled,
			"Terminated by signal 9 (SIGKILL), not by the kernel's OOM killer; earlyoom may have sent it",
		},
		{
			"SIGKILL where two run",
			Evidence{ExitCode: 137, Signal: 9, Killers: []string{"earlyoom", "systemd-oomd"}},
			Signaled,
			"Terminated by signal 9 (SIGKILL), not by the kernel's OOM killer; earlyoom and systemd-oomd may have sent it",
		},
		{
			"SIGKILL where nothing is counted",
			Evidence{ExitCode: 137, Signal: 9, OOMBefore: noCounters, OOMAfter: noCounters},
			Signaled,
			"Terminated by signal 9 (SIGKILL); it is not known whether the OOM killer sent it: the task has no memory cgroup",
		},
		{"stopped", Evidence{Cause: Stopped, ExitCode: 143, Signal: 15}, Stopped, "Stopped on request"},
		{
			"its caller died",
			Evidence{Cause: Stopped, Reason: "the process that started it is gone", ExitCode: 143, Signal: 15},
			Stopped,
			"Stopped because the process that started it is gone",
		},
		{"stopped and exited well", Evidence{Cause: Stopped}, Stopped, "Stopped on request"},
		{"timed out", Evidence{Cause: TimedOut, ExitCode: 143, Signal: 15}, TimedOut, "Timed out"},
		{
			"stopped, and did not end",
			Evidence{Cause: Stopped, ExitCode: 137, Signal: 9},
			Stopped,
			"Stopped on request, and killed because it did not exit in time",
		},
		{
			"timed out, and did not end",
			Evidence{Cause: TimedOut, ExitCode: 137, Signal: 9},
			TimedOut,
			"Timed out, and killed because it did not exit in time",
		},
		{"stopped with a SIGKILL forwarded", Evidence{Cause: Stopped, ExitCode: 137, Signal: 9, Forwarded: 9}, Stopped, "Stopped on request"},
		{
			"timed out after the main process",
			Evidence{Cause: TimedOut, AfterMain: true},
			TimedOut,
			"Timed out; the main process had completed with exit code 0 before",
		},
		{
			"stopped after the main process failed",
			Evidence{Cause: Stopped, AfterMain: true, ExitCode: 3},
			Stopped,
			"Stopped on request; the main process had failed with exit code 3 before",
		},
		{
			"stopped after the main process was killed",
			Evidence{Cause: Stopped, AfterMain: true, ExitCode: 137, Signal: 9, Reason: "the process that started it is gone"},
			Stopped,
			"Stopped because the process that started it is gone; the main process had been terminated by signal 9 (SIGKILL) before",
		},
		{
			"what it left was stopped",
			Evidence{Leftovers: Leftovers{"sh": 1, "sleep": 2}},
			Completed,
			"Completed with exit code 0; 3 processes outlived the main process and were stopped: sleep (2), sh",
		},
		{
			"what it left was stopped, on request",
			Evidence{Cause: Stopped, Leftovers: Leftovers{"sleep": 1}},
			Stopped,
			"Stopped on request",
		},
		{"not started", Evidence{Cause: StartFailed, Reason: "no such file"}, StartFailed, "Start failed: no such file"},
		{
			"executor lost",
			Evidence{Cause: ExecutorLost},
			ExecutorLost,
			"Executor lost: how the main process ended is not known",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := Diagnose(evidenceOf(test.e))
			if d.Verdict != test.verdict || d.Summary != test.summary {
				t.Errorf("%s: %q, want %s: %q", d.Verdict, d.Summary, test.verdict, test.summary)
			}
			if d.OOMKilled || d.Retryable || d.OOM.Scope != "" || d.OOM.Victim != nil {
				t.Errorf("an OOM kill from nowhere: %+v", d)
			}
			if test.e.OOMAfter.Reason == "" && (d.OOM.Kills == nil || *d.OOM.Kills != 0) {
				t.Errorf("kills %v, want 0", d.OOM.Kills)
			}
		})
	}
}

// TestLastOf holds that no reading from after an OOM kill is shown as what the task used before it.
func TestLastOf(t *testing.T) {
	sample := func(before time.Duration, kills float64) *procstats.Sample {
		s := &procstats.Sample{}
		s.Wall = ended().Add(-before)
		s.SetNumber(procstats.CgroupMemoryEventsOOMKill, kills)
		return s
	}
	killed := Evidence{ExitCode: 137, Signal: 9, OOMAfter: OOMCounters{Read: true, Kills: 8}, OOMBefore: OOMCounters{Read: true, Kills: 7}}
	main := Kill{At: ended().Add(-20 * time.Millisecond), Kills: 1, Main: true}
	earlier := Kill{At: ended().Add(-time.Minute), Kills: 1, Others: true}
	tests := []struct {
		name       string
		kill       Kill
		last, prev *procstats.Sample
		want       time.Duration // the age that is told; negative for no reading
	}{
		{"before the kill", main, sample(300*time.Millisecond, 7), nil, 280 * time.Millisecond},
		{"between kill and end", main, sample(10*time.Millisecond, 8), sample(time.Second, 7), 980 * time.Millisecond},
		{"only after it", main, sample(10*time.Millisecond, 8), nil, -1},
		{"a kill of long ago", earlier, sample(10*time.Millisecond, 8), sample(time.Second, 8), 10 * time.Millisecond},
		{"nothing sampled", main, nil, nil, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := killed
			e.EndedAt, e.Wall, e.Span, e.Kills = ended(), time.Minute, time.Minute, []Kill{test.kill}
			last, _ := e.LastOf(test.last, test.prev)
			if (last != nil) != (test.want >= 0) || last != nil && e.LastAge != test.want {
				t.Errorf("%v, %s before; want %s", last, e.LastAge, test.want)
			}
		})
	}
}

// TestOOM goes through every scope with every end that a kill can lead to.
func TestOOM(t *testing.T) {
	ends := []struct {
		name   string
		e      Evidence
		change func(*Kill)
		// to blame reports that the kill is why the task ended badly.
		blamed  bool
		verdict Verdict
	}{
		{"main killed", Evidence{ExitCode: 137, Signal: 9}, ofMain, true, Signaled},
		{"a process killed, main ends by SIGKILL", Evidence{ExitCode: 137, Signal: 9}, unnamed, true, Signaled},
		{"child killed, main fails", Evidence{ExitCode: 1}, ofOthers, true, Failed},
		{"child killed, main aborts", Evidence{ExitCode: 134, Signal: 6}, ofOthers, true, Signaled},
		{"child killed, main goes on", Evidence{}, ofOthers, false, Completed},
		{"child killed, main killed from outside", Evidence{ExitCode: 137, Signal: 9}, ofOthers, false, Signaled},
		{"child killed, main killed on request", Evidence{ExitCode: 137, Signal: 9, Forwarded: 9}, unnamed, false, Signaled},
		{"child killed, main ended on request", Evidence{ExitCode: 143, Signal: 15, Forwarded: 15}, ofOthers, false, Signaled},
		{"child killed, stopped", Evidence{Cause: Stopped, ExitCode: 137, Signal: 9}, unnamed, false, Stopped},
		{"main killed while it is stopped", Evidence{Cause: Stopped, ExitCode: 137, Signal: 9}, ofMain, true, Stopped},
		{"child killed, timed out", Evidence{Cause: TimedOut, ExitCode: 143, Signal: 15}, ofOthers, false, TimedOut},
		{
			"a process killed long before",
			Evidence{ExitCode: 137, Signal: 9},
			func(k *Kill) { unnamed(k); k.At = ended().Add(-time.Minute) }, false, Signaled,
		},
		{
			"a process killed long after",
			Evidence{ExitCode: 137, Signal: 9},
			func(k *Kill) { unnamed(k); k.At = ended().Add(time.Minute) }, false, Signaled,
		},
		{
			"another named process killed",
			Evidence{ExitCode: 137, Signal: 9},
			func(k *Kill) {
				unnamed(k)
				k.Reason, k.Victims = "", []Victim{{PID: 77, Command: "tail", Source: FromKmsg}}
			}, false, Signaled,
		},
		{
			"another process killed, as is guessed",
			Evidence{ExitCode: 137, Signal: 9},
			func(k *Kill) {
				unnamed(k)
				k.Reason, k.Victims = "", []Victim{{PID: 77, Command: "tail", Source: FromSample}}
			}, true, Signaled,
		},
		{
			"a process with a number of another namespace killed",
			Evidence{ExitCode: 137, Signal: 9},
			func(k *Kill) {
				unnamed(k)
				k.Reason, k.Victims = "", []Victim{{PID: 77, Namespace: "host", Command: "tail", Source: FromKmsg}}
			}, true, Signaled,
		},
	}
	for _, scope := range []Scope{Own, Descendant, Ancestor, HostScope, AncestorOrHost} {
		foreign := scope != Own && scope != Descendant
		for _, end := range ends {
			t.Run(string(scope)+"/"+end.name, func(t *testing.T) {
				kill := killOf(scope, end.change)
				d := Diagnose(evidenceOf(end.e, kill))
				if d.Verdict != end.verdict || d.OOM.Scope != scope || *d.OOM.Kills != 1 {
					t.Errorf("verdict %s, OOM %+v, want %s and one kill of scope %s", d.Verdict, d.OOM, end.verdict, scope)
				}
				testkit.Equal(t, d.OOMKilled, end.blamed && !foreign, "OOM killed")
				testkit.Equal(t, d.Retryable, end.blamed && foreign, "retryable")
				if (d.OOM.Victim == nil) != (kill.Victims == nil) || d.OOM.Reason != kill.Reason {
					t.Errorf("victim %+v, reason %q, want %+v, %q", d.OOM.Victim, d.OOM.Reason, kill.Victims, kill.Reason)
				}
				if !strings.Contains(d.Summary, kill.cause()) || d.Operator == "" {
					t.Errorf("summary %q, operator %q, want both, and %q in the first", d.Summary, d.Operator, kill.cause())
				}
			})
		}
	}
}

func TestSentences(t *testing.T) {
	tests := []struct {
		name string
		got  string
		want string
	}{
		{
			"main", Diagnose(evidenceOf(Evidence{ExitCode: 137, Signal: 9}, killOf(Own, ofMain))).Summary,
			"Killed: out of memory (limit 108 MiB, peak 108 MiB)",
		},
		{
			"child", Diagnose(evidenceOf(Evidence{}, killOf(Ancestor, ofOthers))).Summary,
			"Completed with exit code 0; process php-fpm[79699] was killed: out of memory in a parent cgroup shared with other tasks (limit 108 MiB, task peak 108 MiB)",
		},
		{
			"several", Diagnose(evidenceOf(Evidence{ExitCode: 1}, killOf(HostScope, unnamed), killOf(HostScope, unnamed))).Summary,
			"Failed with exit code 1; 2 processes were killed, last cause: the host ran out of memory (task peak 108 MiB)",
		},
		{
			"a worker", sentence(killOf(Own, ofOthers)),
			"Process php-fpm[79699] was killed: out of memory (limit 108 MiB, peak 108 MiB); the main process is still running",
		},
		{
			"the main process", sentence(killOf(Descendant, ofMain)),
			"Main process php-fpm[79699] was killed: out of memory at a limit set inside the task (limit 108 MiB, task peak 108 MiB)",
		},
		{
			"victim unknown", sentence(killOf(AncestorOrHost, func(k *Kill) { unnamed(k); k.PeakBytes = nil })),
			"A process of the task was killed: a parent cgroup or the host ran out of memory",
		},
		{
			"three at once", sentence(killOf(HostScope, func(k *Kill) { k.Kills, k.PeakBytes = 3, nil })),
			"3 processes were killed, php-fpm[79699] among them: the host ran out of memory",
		},
		{
			"the main process with its group", sentence(killOf(Own, func(k *Kill) {
				ofMain(k)
				k.Group, k.LimitBytes, k.PeakBytes = true, nil, nil
				k.Victims = append(k.Victims, Victim{PID: 7, Command: "tail", Chosen: true})
			})),
			"Main process php-fpm[79699] was killed with its cgroup, of which the kernel chose tail[7]: out of memory at the task's own limit",
		},
		{
			"a group", sentence(killOf(Own, func(k *Kill) { k.Group, k.LimitBytes, k.PeakBytes = true, nil, nil })),
			"A whole cgroup of the task was killed: out of memory at the task's own limit",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			testkit.Diff(t, "sentence", test.want, test.got)
		})
	}
}

func sentence(k Kill) string { return k.Sentence() }

// TestKills counts kills: with memory.oom.group the kernel's counter is not the number of processes.
func TestKills(t *testing.T) {
	group := func(k *Kill) { k.Group = true }
	before, after := counted(3)
	after.GroupKills = 1
	tests := []struct {
		name  string
		e     Evidence
		kills *int64
		group bool
	}{
		{"none", evidenceOf(Evidence{}), new(int64(0)), false},
		{"two", evidenceOf(Evidence{}, killOf(Own, nil), killOf(Own, nil)), new(int64(2)), false},
		{"noticed at once", evidenceOf(Evidence{}, killOf(Own, func(k *Kill) { k.Kills = 3 })), new(int64(3)), false},
		{"a group of two", Evidence{Kills: []Kill{killOf(Own, group)}, OOMBefore: before, OOMAfter: after}, new(int64(1)), true},
		{
			"a group after another",
			Evidence{Kills: []Kill{killOf(Own, nil), killOf(Own, group)}, OOMBefore: before, OOMAfter: after},
			new(int64(2)), true,
		},
		{
			"only the log knows", Evidence{
				Kills:     []Kill{killOf(HostScope, func(k *Kill) { k.Kills, k.Main = 0, true })},
				OOMBefore: OOMCounters{Reason: "none"}, OOMAfter: OOMCounters{Reason: "none"},
			}, new(int64(1)), false,
		},
		{"lost", Evidence{Cause: ExecutorLost}, nil, false},
		{"nothing counts", Evidence{OOMBefore: OOMCounters{Reason: "none"}, OOMAfter: OOMCounters{Reason: "none"}}, nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := Diagnose(test.e).OOM
			if diff := cmp.Diff(test.kills, o.Kills); diff != "" || o.Group != test.group {
				t.Errorf("group %v, kills (-want +got):\n%s", o.Group, diff)
			}
			if test.kills == nil && o.Reason == "" {
				t.Error("no reason")
			}
		})
	}
}

// TestDecisive holds that the kill of the main process counts, whenever it came.
func TestDecisive(t *testing.T) {
	kills := []Kill{killOf(HostScope, ofMain), killOf(Own, ofOthers)}
	d := Diagnose(evidenceOf(Evidence{ExitCode: 137, Signal: 9}, kills...))
	if d.OOM.Scope != HostScope || !d.Retryable || d.OOMKilled {
		t.Errorf("scope %s, retryable %v, want the main process's: %+v", d.OOM.Scope, d.Retryable, d.OOM)
	}
	testkit.Diff(t, "notices", kills, d.OOM.Notices)
}

func TestScopeOf(t *testing.T) {
	before := OOMCounters{Own: 1, Below: 1, Above: []int64{4, 5}}
	moved := func(own, below int64, above ...int64) OOMCounters {
		return OOMCounters{Own: own, Below: below, Above: above}
	}
	tests := []struct {
		name   string
		after  OOMCounters
		logged Scope
		root   bool
		want   Scope
	}{
		{"own limit", moved(2, 1, 4, 5), "", true, Own},
		{"own limit before all others", moved(2, 2, 5, 6), "", true, Own},
		{"a limit below", moved(1, 2, 4, 5), "", false, Descendant},
		{"the parent's", moved(1, 1, 5, 5), "", true, Ancestor},
		{"one further up", moved(1, 1, 4, 6), "", false, Ancestor},
		{"no cgroup's, all visible", moved(1, 1, 4, 5), "", true, HostScope},
		{"no cgroup's, some hidden", moved(1, 1, 4, 5), "", false, AncestorOrHost},
		{"the log knows better", moved(2, 1, 4, 5), Ancestor, true, Ancestor},
		{"the log says host", moved(1, 1, 4, 5), HostScope, false, HostScope},
		{"an ancestor that was not there before", moved(1, 1, 4, 5, 9), "", true, HostScope},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			testkit.Equal(t, ScopeOf(before, test.after, test.logged, test.root), test.want, "scope")
		})
	}
	if i, ok := HitAbove(before, moved(1, 1, 4, 6)); !ok || i != 1 {
		t.Errorf("hit above: %d, %v, want the second", i, ok)
	}
}

// TestEvidence holds that the numbers go with the sentences, and absent ones stay away.
func TestEvidence(t *testing.T) {
	before, after, last := &procstats.Sample{}, &procstats.Sample{}, &procstats.Sample{}
	before.SetNumber(procstats.CgroupMemoryEventsMax, 0)
	after.SetNumber(procstats.CgroupMemoryEventsMax, 43)
	after.SetNumber(procstats.CgroupMemoryMax, 108<<20)
	after.SetNumber(procstats.CgroupMemoryPeak, 108<<20)
	after.SetAbsent(procstats.CgroupMemoryHigh, procstats.ReasonNoLimit)
	last.SetNumber(procstats.CgroupMemoryCurrent, 100<<20)
	e := evidenceOf(Evidence{ExitCode: 137, Signal: 9, Before: before, After: after, Last: last, LastAge: 300 * time.Millisecond}, killOf(Own, ofMain))
	want := map[string]any{
		"cgroup_memory_events_max_total_before": 0.0, "cgroup_memory_events_max_total_after": 43.0,
		"cgroup_memory_max_bytes": float64(108 << 20), "cgroup_memory_peak_bytes": float64(108 << 20),
		"last_sample_age_seconds": 0.3, "last_sample_cgroup_memory_current_bytes": float64(100 << 20),
		"oom_kill_before": int64(7), "oom_kill_after": int64(8), "oom_group_kill_before": int64(0), "oom_group_kill_after": int64(0),
		"oom_own_limit": int64(1), "oom_limits_below": int64(0), "oom_limits_above": int64(0),
	}
	testkit.Diff(t, "evidence", want, Diagnose(e).Evidence)
}
