// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
)

// TestRunEndsAsTheCommand checks exit code, signal and verdict of commands that end by themselves.
func TestRunEndsAsTheCommand(t *testing.T) {
	tests := []struct {
		script  string
		code    int
		signal  int // 0 for none
		verdict record.Verdict
	}{
		{"exit 0", 0, 0, record.Completed},
		{"exit 1", 1, 0, record.Failed},
		{"exit 42", 42, 0, record.Failed},
		{"exit 124", 124, 0, record.Failed},
		{"exit 125", 125, 0, record.Failed},
		{"exit 255", 255, 0, record.Failed},
		{"kill -TERM $$", 143, 15, record.Signaled},
		{"kill -KILL $$", 137, 9, record.Signaled},
		{"kill -SEGV $$", 139, 11, record.Signaled},
		{"kill -USR1 $$", 138, 10, record.Signaled},
	}
	for _, mode := range rig.Modes() {
		for _, test := range tests {
			t.Run(mode.String()+"/"+test.script, func(t *testing.T) {
				place := placeFor(t, mode)
				out := rig.Capture(t, shell(t, place, test.script))
				if out.Code != test.code {
					t.Errorf("exit code %d, want %d: %s", out.Code, test.code, out.Stderr)
				}
				r := place.TheRun(t).Record
				if r.State != record.Exited || r.Diagnosis.Verdict != test.verdict {
					t.Errorf("state %q, verdict %q, want exited and %q", r.State, r.Diagnosis.Verdict, test.verdict)
				}
				if r.ExitCode == nil || *r.ExitCode != test.code {
					t.Errorf("the record's exit code is %s, want %d", number(r.ExitCode), test.code)
				}
				if test.signal == 0 != (r.Signal == nil) || r.Signal != nil && *r.Signal != test.signal {
					t.Errorf("the record's signal is %s, want %d", number(r.Signal), test.signal)
				}
			})
		}
	}
}

func number(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// TestRunEndsWhatRunsTooLong checks --timeout: 124, and nothing of the task left.
func TestRunEndsWhatRunsTooLong(t *testing.T) {
	eachMode(t, func(t *testing.T, place *spot) {
		s := start(t, place.Run(t.Context(), "--timeout", "500ms", "--", rig.Workload(), "linger"))
		s.exits(t, 124)
		r := place.TheRun(t).Record
		if r.Diagnosis.Verdict != record.TimedOut {
			t.Errorf("verdict %q, want timed_out", r.Diagnosis.Verdict)
		}
	})
}

// TestRunLeavesNothing checks that what a command leaves behind ends with it.
func TestRunLeavesNothing(t *testing.T) {
	eachMode(t, func(t *testing.T, place *spot) {
		// The daemon leaves session, parent and descriptors; the shell ends once it is there.
		script := fmt.Sprintf("%q linger >ready 2>&1 </dev/null & until grep -q ready ready; do sleep 0.02; done; exit 5", rig.Workload())
		s := start(t, shell(t, place, script))
		s.exits(t, 5)
	})
}

// TestRunIsQuick checks that a command's end is also tacho's.
func TestRunIsQuick(t *testing.T) {
	place := newPlace(t, rig.Self())
	began := time.Now()
	out := rig.Capture(t, place.Run(t.Context(), "--interval", "1h", "--", rig.Workload(), "short"))
	if out.Code != 0 {
		t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
	}
	// 30 ms of work and the start of three processes, on a machine with other things to do.
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

// TestRunAgainAndAgain checks that nothing goes wrong now and then.
func TestRunAgainAndAgain(t *testing.T) {
	place := newPlace(t, rig.Self())
	for i := range 40 {
		out := rig.Capture(t, place.Run(t.Context(), "--no-files", "--interval", "10ms", "--", rig.Workload(), "short"))
		if out.Code != 0 {
			t.Fatalf("run %d: exit code %d: %s", i, out.Code, out.Stderr)
		}
	}
}
