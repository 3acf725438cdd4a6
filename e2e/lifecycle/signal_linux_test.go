// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// forwarded are the signals that go through tacho to the command: all but those that cannot be caught, and those that
// docs name.
func forwarded() (list []syscall.Signal) {
	kept := []syscall.Signal{
		unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE, unix.SIGPROF, unix.SIGTTIN, unix.SIGTTOU, unix.SIGTSTP, 32, 33, 34,
	}
	for signal := syscall.Signal(1); signal <= 64; signal++ {
		if !slices.Contains(kept, signal) {
			list = append(list, signal)
		}
	}
	return list
}

// shortName is a number for a realtime signal: not every shell has names for them.
func shortName(signal syscall.Signal) string {
	return cmp.Or(strings.TrimPrefix(unix.SignalName(signal), "SIG"), strconv.Itoa(int(signal)))
}

// TestRunForwardsSignals sends tacho each signal and has a script answer it.
func TestRunForwardsSignals(t *testing.T) {
	var script strings.Builder
	for _, signal := range forwarded() {
		fmt.Fprintf(&script, "trap 'echo got %d' %d\n", signal, signal)
	}
	place := newPlace(t, rig.Self())
	done := filepath.Join(place.Dir, "done")
	fmt.Fprintf(&script, "echo ready; until test -e %s; do sleep 0.02; done; exit 7", done)
	s := start(t, shell(t, place, script.String()))
	s.expect(t, "ready")
	for _, signal := range forwarded() {
		testkit.Must(t, s.cmd.Process.Signal(signal))
		s.expect(t, fmt.Sprintf("got %d", signal))
	}
	testkit.Must(t, os.WriteFile(done, nil, 0o600))
	s.exits(t, 7)
}

// TestRunEndsByAForwardedSignal sends tacho each signal with nobody there to answer it.
func TestRunEndsByAForwardedSignal(t *testing.T) {
	for _, signal := range forwarded() {
		const realtime = 35
		if signal == unix.SIGCONT || signal == unix.SIGWINCH || signal > realtime {
			continue // they end no process, or as the others
		}
		t.Run(shortName(signal), func(t *testing.T) {
			place := newPlace(t, rig.Self())
			s := start(t, shell(t, place, "echo ready; exec sleep 1000"))
			s.expect(t, "ready")
			r := place.Running(t)
			testkit.Must(t, s.cmd.Process.Signal(signal))
			code, stderr := s.wait(t, deadline)
			if want := 128 + int(signal); code != want {
				t.Errorf("exit code %d, want %d: %s", code, want, stderr)
			}
			if rig.Alive(r.PID) {
				t.Errorf("the command (%d) still runs", r.PID)
			}
		})
	}
}

// TestRunKeepsIgnoredSignals checks what nohup and shells rely on: a signal that was ignored before tacho is
// ignored in the command too.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	needShell(t)
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		name := shortName(signal)
		t.Run(name, func(t *testing.T) {
			place := newPlace(t, rig.Self())
			script := fmt.Sprintf(`trap '' %s; exec "$@"`, name)
			if signal == syscall.SIGQUIT {
				// As shells do for background jobs. SIGQUIT alone is lost: the Go runtime does not keep it.
				script = `trap '' INT QUIT; exec "$@"`
			}
			cmd := place.Command(t.Context(), "/bin/sh", "-c", script, "sh",
				rig.Tacho(), "run", "--output-dir", place.Out, "--", "grep", "SigIgn", "/proc/self/status")
			out := rig.Capture(t, cmd)
			if out.Code != 0 {
				t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
			}
			mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(out.Stdout, "SigIgn:")), 16, 64)
			testkit.Must(t, err)
			if mask&(1<<(signal-1)) == 0 {
				t.Errorf("the command does not ignore SIG%s (mask %#x)", name, mask)
			}
		})
	}
}

// TestRunBlocksNoSignals checks that the command starts with the signals of a fresh process: none blocked, and
// ignored only what was ignored before.
func TestRunBlocksNoSignals(t *testing.T) {
	place := newPlace(t, rig.Self())
	masks := []string{"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}
	want := rig.Capture(t, place.Command(t.Context(), masks[0], masks[1:]...))
	out := rig.Capture(t, place.Run(t.Context(), append([]string{"--"}, masks...)...))
	if out.Code != 0 || out.Stdout != want.Stdout {
		t.Errorf("under tacho\n%s\nwithout\n%s\n%s", out.Stdout, want.Stdout, out.Stderr)
	}
}
