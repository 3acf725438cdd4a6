// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package oom

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/oom"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

const (
	limitFlag  = "48M"
	limitBytes = 48 * mib
	tooMuch    = 160 * mib
)

func text(n int) string { return strconv.Itoa(n) }

// TestOwnLimit has the task go over its own limit: its main process, a child, all at once.
func TestOwnLimit(t *testing.T) {
	limit := []string{"--memory", limitFlag}
	tests := []struct {
		name  string
		flags []string
		role  []string
		want  end
		v2    bool
	}{
		{
			"main", limit,
			[]string{roleEat, text(tooMuch)},
			end{Code: 137, Verdict: record.Signaled, Kills: 1, Scope: record.Own, OOMKilled: true, MainVictim: true},
			false,
		},
		{
			"child, main goes on", limit,
			[]string{roleParent, "1", text(tooMuch), "0"},
			end{Code: 0, Verdict: record.Completed, Kills: 1, Scope: record.Own},
			false,
		},
		{
			"child, main fails", limit,
			[]string{roleParent, "1", text(tooMuch), "3"},
			end{Code: 3, Verdict: record.Failed, Kills: 1, Scope: record.Own, OOMKilled: true},
			false,
		},
		{
			"three children, main goes on", limit,
			[]string{roleParent, "3", text(tooMuch), "0"},
			end{Code: 0, Verdict: record.Completed, Kills: 3, Scope: record.Own},
			false,
		},
		{
			"all at once", append([]string{"--oom-group"}, limit...),
			[]string{roleParent, "1", text(tooMuch), "0"},
			end{Code: 137, Verdict: record.Signaled, Kills: 1, Group: true, Scope: record.Own, OOMKilled: true},
			true,
		},
		{
			"grandchild in a nested group with a limit", nil,
			[]string{roleNested, text(limitBytes), text(tooMuch), "0"},
			end{Code: 0, Verdict: record.Completed, Kills: 1, Scope: record.Descendant},
			false,
		},
		{
			"the same, and main fails", nil,
			[]string{roleNested, text(limitBytes), text(tooMuch), "4"},
			end{Code: 4, Verdict: record.Failed, Kills: 1, Scope: record.Descendant, OOMKilled: true},
			false,
		},
		{
			"grandchild in a nested group without one", limit,
			[]string{roleNested, text(2 * tooMuch), text(tooMuch), "0"},
			end{Code: 0, Verdict: record.Completed, Kills: 1, Scope: record.Own},
			false,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			parent := rig.NeedMemory(t)
			if test.v2 && !versionTwo() {
				t.Skip("memory.oom.group is version 2's")
			}
			if log, err := oom.OpenLog(); err == nil { // else the victims are known from samples
				testkit.Must(t, log.Close())
				letLogTell(t, int(test.want.Kills))
			}
			r := run(t, parent, test.flags, test.role...)
			hold(t, r, test.want)
			// A task can remove a group of its own before its limit is read.
			if limit := r.Diagnosis.OOM.Notices; len(limit) > 0 && test.want.Scope == record.Own &&
				(limit[0].LimitBytes == nil || *limit[0].LimitBytes != limitBytes) {
				t.Errorf("limit %v, want %d", limit[0].LimitBytes, limitBytes)
			}
		})
	}
}

// TestReadingBeforeLimit holds that the last reading of a task that is killed is one from before, whatever was read
// between the kill and the end.
func TestReadingBeforeLimit(t *testing.T) {
	const held, least = 32 * mib, 30 * mib
	parent := rig.NeedMemory(t)
	for try := range 8 {
		wait := fmt.Sprintf("%dms", 250+13*try) // at another moment between two readings each time
		r := run(t, parent, []string{"--memory", limitFlag}, roleGrow, text(held), text(tooMuch), wait)
		last := r.Diagnosis.LastReading
		if last == nil || last.MemoryBytes == nil || *last.MemoryBytes < least {
			t.Errorf("after %s: last reading %+v, want at least %d bytes: %s", wait, last, least, r.Sentence())
		}
	}
}

// TestLazilyFreedBelowLimit holds that pages which a task has given up by MADV_FREE are no part of what it needs, though
// they are charged, from when the kernel counts them to the files, and that it takes them back at the limit.
func TestLazilyFreedBelowLimit(t *testing.T) {
	const freed, most = 32 * mib, 16 * mib
	parent := rig.NeedMemory(t)
	// One that was read while the task ended, and its memory was given back, says nothing.
	var memory, charged, files float64
	var r *record.Record
	for try := 0; try < 5 && charged < freed; try++ {
		r = run(t, parent, []string{"--memory", limitFlag}, roleLazy, text(freed), "0", "400ms")
		last, all := r.Diagnosis.LastReading, r.Headline[procstats.HeadlineMemoryCharged.String()].Value
		if last == nil || last.MemoryBytes == nil || all == nil {
			t.Fatalf("last reading %+v, charged %v", last, all)
		}
		memory, charged = *last.MemoryBytes, *all
		files, _ = r.Measurements[procstats.CgroupMemoryInactiveFile.String()].(float64)
	}
	if charged < freed || memory > charged-files {
		t.Fatalf("last reading %v, charged %v, of them %v files", memory, charged, files)
	}
	if files < most {
		t.Logf("the kernel does not count what is freed to the files yet: %v bytes", files)
	} else if memory > most {
		t.Errorf("last reading %v: want less than %d bytes of more than %d", memory, most, freed)
	}
	r = run(t, parent, []string{"--memory", limitFlag}, roleLazy, text(freed), text(freed), "50ms")
	hold(t, r, end{Verdict: record.Completed})
	if peak := r.Headline[procstats.HeadlineMemoryPeak.String()]; peak.Value == nil || *peak.Value < freed {
		t.Errorf("peak below %d bytes, or none: %s", freed, r.Sentence())
	}
}

// TestAncestor has a group above the task run out of memory.
func TestAncestor(t *testing.T) {
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.LimitMemory(limitBytes))
	hold(t, run(t, parent, nil, roleEat, text(tooMuch)),
		end{Code: 137, Verdict: record.Signaled, Kills: 1, Scope: record.Ancestor, Retryable: true, MainVictim: true})
	hold(t, run(t, parent, []string{"--memory", "4G"}, roleParent, "1", text(tooMuch), "0"),
		end{Code: 0, Verdict: record.Completed, Kills: 1, Scope: record.Ancestor})
	// The own limit is lower: the ancestor's is not to blame.
	hold(t, run(t, parent, []string{"--memory", "24M"}, roleEat, text(tooMuch)),
		end{Code: 137, Verdict: record.Signaled, Kills: 1, Scope: record.Own, OOMKilled: true, MainVictim: true})
}

// TestElsewhere has the task move to a group of others and go over the limit there, which its own group does not count.
func TestElsewhere(t *testing.T) {
	parent := rig.NeedMemory(t)
	other := testkit.Value(rig.NewParent(t, rig.Self()))(t)
	testkit.Must(t, other.LimitMemory(limitBytes))
	letLogTell(t, 1)
	r := run(t, parent, nil, roleEnter, other.MemoryFolder(), text(tooMuch))
	hold(t, r, end{Code: 137, Verdict: record.Signaled, OOMKilled: true, MainVictim: true})
	if want := "Killed: out of memory"; r.Diagnosis.Summary != want {
		t.Errorf("summary %q, want %q", r.Diagnosis.Summary, want)
	}
}

// hiddenKill lets a task run into the limit of a group that a cgroup namespace hides from it. While the chosen process
// gives its memory back the group is still full, and the kernel chooses again: chosen reports that it was tacho run, or
// the executor where that may not protect itself (no CAP_SYS_RESOURCE).
func hiddenKill(t *testing.T, limit int, log string) (place *rig.Place, out rig.Output, chosen bool) {
	t.Helper()
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.LimitMemory(int64(limit)))
	place = rig.NewPlace(t, rig.Self())
	run := place.Run(t.Context(), "--cgroup-parent", hidden, "--interval", "100ms", "--live", "never", "--", self(t), roleEat, text(2*limit))
	cmd := place.Command(t.Context(), self(t), append([]string{roleUnshare, parent.Path, log}, run.Args...)...)
	out = rig.Capture(t, cmd)
	t.Cleanup(func() {
		rig.Eventually(t, deadline, "all processes in the group have ended", func() bool { return len(parent.Processes()) == 0 })
		for _, dir := range parent.Below() {
			testkit.NoError(t, os.Remove(dir))
		}
	})
	return place, out, cmd.ProcessState.ExitCode() < 0 || out.Code == 125 && !mayProtect(t)
}

// mayProtect reports whether a process here may make itself the last to be killed.
func mayProtect(t *testing.T) bool {
	t.Helper()
	own := testkit.Value(os.ReadFile("/proc/self/oom_score_adj"))(t)
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		return false
	}
	return os.WriteFile("/proc/self/oom_score_adj", own, 0) == nil
}

// TestHiddenAncestor has a group run out of memory that a cgroup namespace hides from tacho.
func TestHiddenAncestor(t *testing.T) {
	const limit = 192 * mib // tacho itself is in it too
	// On version 1 every group below fires, which the machine's memory never does.
	quiet := record.Ancestor
	if versionTwo() {
		quiet = record.AncestorOrHost
	}
	tests := []struct {
		name, log string
		want      record.Scope
	}{{"no source", "", quiet}, {"the kernel's log tells", "log", record.Ancestor}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			letLogTell(t, 1)
			place, out, chosen := hiddenKill(t, limit, test.log)
			for tries := 1; chosen && tries < 10; tries++ {
				t.Log("tacho was chosen as well; retry")
				letLogTell(t, 1)
				place, out, chosen = hiddenKill(t, limit, test.log)
			}
			if out.Code != 137 {
				t.Fatalf("exit code %d\nstderr: %s", out.Code, out.Stderr)
			}
			r := place.TheRun(t).Record
			hold(t, r, end{Code: 137, Verdict: record.Signaled, Kills: 1, Scope: test.want, Retryable: true, MainVictim: true})
			if r.Diagnosis.OOM.Victim == nil {
				t.Fatalf("no victim: %+v", r.Diagnosis.OOM)
			}
			if source := r.Diagnosis.OOM.Victim.Source; (source == record.FromKmsg) != (test.log != "") {
				t.Errorf("the victim was told by %s", source)
			}
		})
	}
}

// TestPIDNamespace has tacho and its task in a PID namespace of their own: the kernel's log has other numbers.
func TestPIDNamespace(t *testing.T) {
	parent := rig.NeedMemory(t)
	place := rig.NewPlace(t, rig.Self())
	run := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--memory", limitFlag, "--interval", "10ms", "--live", "never",
		"--", self(t), roleEat, text(tooMuch))
	cmd := place.Command(t.Context(), self(t), append([]string{roleFirst}, run.Args...)...)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	out := rig.Capture(t, cmd)
	if out.Code != 137 {
		t.Fatalf("exit code %d\nstderr: %s", out.Code, out.Stderr)
	}
	r := place.TheRun(t).Record
	hold(t, r, end{Code: 137, Verdict: record.Signaled, Kills: 1, Scope: record.Own, OOMKilled: true, MainVictim: true})
	if v := r.Diagnosis.OOM.Victim; v != nil && v.Namespace != "" {
		t.Errorf("victim %+v, want it with its number here", v)
	}
}

// TestHost has the machine run out of memory. It is for a machine of its own: a guest with -memory 256.
func TestHost(t *testing.T) {
	parent := rig.NeedMemory(t)
	meminfo := testkit.Value(os.ReadFile("/proc/meminfo"))(t)
	total := integer(strings.Fields(string(meminfo))[1])
	if os.Getenv("TACHO_GUEST") == "" || total > 300<<10 {
		t.Skipf("not in a guest with -memory 256: this machine of %d MiB is not to run out of memory", total>>10)
	}
	hold(t, run(t, parent, nil, roleEat, text(1024*mib)),
		end{Code: 137, Verdict: record.Signaled, Kills: 1, Scope: record.HostScope, Retryable: true, MainVictim: true})
	hold(t, run(t, parent, []string{"--memory", "900M"}, roleParent, "1", text(1024*mib), "0"),
		end{Code: 0, Verdict: record.Completed, Kills: 1, Scope: record.HostScope})
}

// TestKilledFromOutside kills a task that lives close to its limit: that is no OOM kill.
func TestKilledFromOutside(t *testing.T) {
	parent := rig.NeedMemory(t)
	place := rig.NewPlace(t, rig.Self())
	cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--memory", limitFlag, "--interval", "100ms", "--live", "never",
		"--", self(t), roleHold, text(limitBytes*8/10))
	r := startRole(t, place, cmd)
	testkit.Must(t, syscall.Kill(r.PID, syscall.SIGKILL))
	r = closed(t, place, cmd)
	hold(t, r, end{Code: 137, Verdict: record.Signaled, Kills: 0})
	if !strings.Contains(r.Diagnosis.Summary, "not by the kernel's OOM killer") {
		t.Errorf("summary %q, want it to say that it was no OOM kill", r.Diagnosis.Summary)
	}
}

// TestCallerDied kills tacho run: the record says why the task was stopped.
func TestCallerDied(t *testing.T) {
	parent := rig.NeedMemory(t)
	place := rig.NewPlace(t, rig.Self())
	cmd := place.Run(t.Context(), "--cgroup-parent", parent.Path, "--live", "never", "--", self(t), roleHold, "0")
	startRole(t, place, cmd)
	// On a busy machine the command runs before tacho run has confirmed the start, without which the end is another one.
	testkit.Must(t, visit(t, place).Confirm(t.Context()))
	testkit.Must(t, cmd.Process.Kill())
	r := closed(t, place, cmd)
	rig.Eventually(t, deadline, "the executor has ended", func() bool { return len(place.Strays()) == 0 })
	if want := "Stopped because the process that started it is gone"; r.Diagnosis.Verdict != record.Stopped || r.Diagnosis.Summary != want {
		t.Errorf("%s: %q, want stopped: %q", r.Diagnosis.Verdict, r.Diagnosis.Summary, want)
	}
}
