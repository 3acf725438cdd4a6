// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// soon is how long the end of one process may outlive that of another that it depends on.
const soon = time.Second

// linger starts a task with a child and a daemon and waits until they are there.
func linger(t *testing.T, place *spot, command ...string) (*session, *record.Record) {
	t.Helper()
	// Whoever does not end when asked to is to be killed soon.
	flags := []string{"--kill-grace", "200ms", "--", rig.Workload(), "linger"}
	s := start(t, place.Run(t.Context(), append(flags, command...)...))
	s.expect(t, "ready")
	r := place.Running(t)
	if r.Executor == nil || !rig.Alive(r.Executor.PID) || !rig.Alive(r.PID) {
		t.Fatalf("the record of the running task names no live executor and command: %+v", r.Executor)
	}
	return s, r
}

// gone waits until nothing of a place runs any more, nor in the cgroup around its task.
func gone(t *testing.T, place *spot) {
	t.Helper()
	took := rig.Eventually(t, deadline, "nothing runs any more", func() bool {
		return len(place.Strays()) == 0 && (place.parent == nil || len(place.parent.Processes()) == 0)
	})
	t.Logf("nothing runs after %s", took.Round(time.Millisecond))
	if took > soon {
		t.Errorf("it took %s until nothing ran any more, want at most %s", took, soon)
	}
}

// TestKillRun kills tacho run: the task ends with it, and its record says so.
func TestKillRun(t *testing.T) {
	for _, mode := range rig.Modes() {
		for _, args := range [][]string{nil, {"-stubborn"}} {
			name := mode.String()
			if len(args) > 0 {
				name += "/stubborn"
			}
			t.Run(name, func(t *testing.T) {
				place := placeFor(t, mode)
				s, _ := linger(t, place, args...)
				testkit.Must(t, s.cmd.Process.Kill())
				gone(t, place)
				r := place.Closed(t)
				if r.State != record.Exited || r.Diagnosis.Verdict != record.Stopped || r.Diagnosis.Summary == "" {
					t.Errorf("state %q, verdict %q (%q), want exited, stopped and a sentence",
						r.State, r.Diagnosis.Verdict, r.Diagnosis.Summary)
				}
			})
		}
	}
}

// TestKillExecutor kills the executor: the task ends, tacho run says so.
func TestKillExecutor(t *testing.T) {
	eachMode(t, func(t *testing.T, place *spot) {
		s, r := linger(t, place)
		testkit.Must(t, syscall.Kill(r.Executor.PID, syscall.SIGKILL))
		gone(t, place)
		code, stderr := s.wait(t, deadline)
		testkit.Equal(t, code, 125, "exit code")
		if stderr == "" {
			t.Error("nothing was said")
		}
		t.Logf("stderr: %s", stderr)
		end := place.Closed(t)
		if end.Diagnosis.Verdict != record.ExecutorLost || end.Diagnosis.Summary == "" {
			t.Errorf("state %q, verdict %q (%q), want executor_lost and a sentence",
				end.State, end.Diagnosis.Verdict, end.Diagnosis.Summary)
		}
	})
}

// TestKillRunAndExecutor kills tacho run and the executor at the same time: the command ends with them, and the next
// tacho command ends what is left and says so. TACHO_TRIES says how often each is tried.
func TestKillRunAndExecutor(t *testing.T) {
	for _, mode := range rig.Modes() {
		for _, runFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/run first: %t", mode, runFirst), func(t *testing.T) {
				for range rig.Tries(1) {
					killBoth(t, mode, runFirst)
				}
			})
		}
	}
}

func killBoth(t *testing.T, mode rig.Mode, runFirst bool) {
	t.Helper()
	place := placeFor(t, mode)
	// Without a cgroup, which Auto may come to, a session is all that can be found again.
	script := "sleep 1000 & echo ready; exec sleep 1000"
	if place.mode.Placement == rig.Below {
		script = "setsid sleep 1000 & " + script
	}
	s := start(t, shell(t, place, script))
	s.expect(t, "ready")
	r := place.Running(t)
	victims := []int{s.cmd.Process.Pid, r.Executor.PID}
	if !runFirst {
		slices.Reverse(victims)
	}
	for _, pid := range victims {
		testkit.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	if took := rig.Eventually(t, deadline, "the command is gone", func() bool { return !rig.Alive(r.PID) }); took > soon {
		t.Errorf("the command outlived both by %s", took)
	}
	out := rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "ls", "--output-dir", place.Out))
	if want := "run " + r.ID + " had lost its executor; killed what was left of it"; !strings.Contains(out.Stderr, want) {
		t.Errorf("the next command says %q, want %q", out.Stderr, want)
	}
	gone(t, place)
	if end := place.Closed(t); end.Diagnosis.Verdict != record.ExecutorLost {
		t.Errorf("verdict %q, want executor_lost", end.Diagnosis.Verdict)
	}
}

// TestKillBothWithoutCgroup does the same with a process in a session of its own and no cgroup: it is found by the
// reports.
func TestKillBothWithoutCgroup(t *testing.T) {
	place := newPlace(t, rig.Unprivileged())
	s := start(t, shell(t, place, "setsid sleep 1000 & echo ready; exec sleep 2000",
		"--cgroup", "none", "--interval", "20ms", "--report-interval", "20ms"))
	s.expect(t, "ready")
	r := place.Running(t)
	rig.Eventually(t, deadline, "both processes are reported", func() bool {
		reports := rig.Reports(t, place.TheRun(t))
		return len(reports) > 0 && len(reports[len(reports)-1].Processes.Rows) == 2
	})
	for _, pid := range []int{s.cmd.Process.Pid, r.Executor.PID} {
		testkit.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "ls", "--output-dir", place.Out))
	gone(t, place)
}

// TestKillCommand kills the command only: its end is an end like any other, and its family goes with it.
func TestKillCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, place *spot) {
		s, r := linger(t, place)
		testkit.Must(t, syscall.Kill(r.PID, syscall.SIGKILL))
		s.exits(t, 137)
		if end := place.TheRun(t).Record; end.Diagnosis.Verdict != record.Signaled {
			t.Errorf("verdict %q, want signaled", end.Diagnosis.Verdict)
		}
	})
}

// detach runs a command that leaves a task running, and returns the record of the task.
func detach(t *testing.T, place *spot, cmd *exec.Cmd) *record.Record {
	t.Helper()
	if code, stderr := start(t, cmd).wait(t, deadline); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return place.Running(t)
}

// stop stops the run of a place.
func stop(t *testing.T, place *spot) {
	t.Helper()
	out := rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "stop", place.TheRun(t).Dir))
	if out.Code != 0 {
		t.Errorf("stop: exit code %d: %s", out.Code, out.Stderr)
	}
}

// TestDetach leaves a task running, looks at it, and stops it.
func TestDetach(t *testing.T) {
	eachMode(t, func(t *testing.T, place *spot) {
		r := detach(t, place, place.Run(t.Context(), "--detach", "--", rig.Workload(), "linger"))
		if r.Executor == nil || !rig.Alive(r.Executor.PID) || !rig.Alive(r.PID) {
			t.Fatal("the task did not go on")
		}
		dir := place.TheRun(t).Dir
		attached := start(t, place.Command(t.Context(), rig.Tacho(), "attach", dir))
		stop(t, place)
		// The linger of the workload ends by SIGTERM.
		if code, stderr := attached.wait(t, deadline); code != 143 {
			t.Errorf("attach: exit code %d, want 143: %s", code, stderr)
		}
		gone(t, place)
		end := place.Closed(t)
		if end.State != record.Exited || end.Diagnosis.Verdict != record.Stopped {
			t.Errorf("state %q, verdict %q, want exited and stopped", end.State, end.Diagnosis.Verdict)
		}
	})
}

// TestDetachOutlivesItsCaller kills the session that tacho run --detach was called in.
func TestDetachOutlivesItsCaller(t *testing.T) {
	place := newPlace(t, rig.Self())
	cmd := place.Run(t.Context(), "--detach", "--", rig.Workload(), "linger")
	cmd.SysProcAttr.Setsid = true
	r := detach(t, place, cmd)
	// What a terminal that goes away does to those who are still in its session.
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGKILL} {
		// Nobody is left in the group where all is well.
		_ = syscall.Kill(-cmd.Process.Pid, signal)
	}
	for watch := time.After(300 * time.Millisecond); ; {
		if !rig.Alive(r.Executor.PID) || !rig.Alive(r.PID) {
			t.Error("the task went with the session that it was started in")
			break
		}
		select {
		case <-watch:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		break
	}
	stop(t, place)
	gone(t, place)
}
