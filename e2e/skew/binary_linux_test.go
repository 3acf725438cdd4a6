// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package skew

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// build is one of the two.
type build struct {
	name   string
	binary func(testing.TB) string
}

func today(t testing.TB) string { rig.Require(t); return rig.Tacho() }

// pairs are who starts a task, and who deals with it then.
func pairs() [][2]build {
	a, b := build{"today's", today}, build{firstName, other}
	return [][2]build{{a, a}, {a, b}, {b, a}}
}

// forPairs runs a test in a place of its own for each pair, with the binary of the one and of the other.
func forPairs(t *testing.T, verb string, test func(t *testing.T, place *rig.Place, starter, other string)) {
	for _, pair := range pairs() {
		t.Run(pair[0].name+" "+verb+" "+pair[1].name, func(t *testing.T) {
			// Both are built first, so that a test that has to be skipped has started nothing.
			starter, other := pair[0].binary(t), pair[1].binary(t)
			test(t, rig.NewPlace(t, rig.Self()), starter, other)
		})
	}
}

// commandOf is a command of a build, without XDG_RUNTIME_DIR: as root, earlier builds look into /run/tacho only.
func commandOf(t *testing.T, place *rig.Place, binary string, args ...string) *exec.Cmd {
	cmd := place.Command(t.Context(), binary, args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "XDG_RUNTIME_DIR=") })
	return cmd
}

// tacho runs a command, which has to succeed, and returns what it says.
func tacho(t *testing.T, place *rig.Place, binary string, args ...string) string {
	t.Helper()
	out := rig.Capture(t, commandOf(t, place, binary, args...))
	if out.Code != 0 {
		t.Errorf("tacho %s: code %d\n%s%s", strings.Join(args, " "), out.Code, out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// detached starts a task that runs on without its caller, and returns its record.
func detached(t *testing.T, place *rig.Place, binary string) record.Entry {
	t.Helper()
	out := rig.Capture(t, commandOf(t, place, binary, "run", "--detach", "--output-dir", place.Out, "--interval", "50ms",
		"--", "sh", "-c", "trap 'exit 3' TERM; : > ready; while :; do sleep 0.02; done"))
	if out.Code != 0 {
		t.Fatalf("tacho run --detach: code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	run := place.TheRun(t)
	if run.Record.Executor == nil || !rig.Alive(run.Record.Executor.PID) {
		t.Fatalf("no executor runs: %+v", run.Record.Executor)
	}
	t.Cleanup(func() {
		// Only where the test has failed is there anything left.
		for _, pid := range []int{run.Record.Executor.PID, run.Record.PID} {
			rig.Kill(pid)
		}
	})
	rig.Eventually(t, deadline, "the task is ready", func() bool {
		_, err := os.Stat(place.Path("ready"))
		return err == nil
	})
	return run
}

// ended holds that a run was stopped, and its record and processes closed.
func ended(t *testing.T, place *rig.Place, run record.Entry) {
	t.Helper()
	rig.Eventually(t, deadline, "nothing runs", func() bool {
		return !rig.Alive(run.Record.Executor.PID) && !rig.Alive(run.Record.PID)
	})
	r := place.TheRun(t).Record
	if r.State != record.Exited || r.Diagnosis.Verdict != record.Stopped || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Errorf("record: state %s, verdict %s, code %v", r.State, r.Diagnosis.Verdict, r.ExitCode)
	}
	if len(rig.Reports(t, place.TheRun(t))) == 0 {
		t.Error("no line of usage")
	}
}

func TestStop(t *testing.T) {
	forPairs(t, "is stopped by", func(t *testing.T, place *rig.Place, starter, other string) {
		run := detached(t, place, starter)
		tacho(t, place, other, "stop", "--output-dir", place.Out, "last")
		ended(t, place, run)
		if show := tacho(t, place, other, "show", "--output-dir", place.Out, "last"); !strings.Contains(show, "stopped") {
			t.Errorf("tacho show says\n%s", show)
		}
	})
}

func TestExecutors(t *testing.T) {
	forPairs(t, "is killed by", func(t *testing.T, place *rig.Place, starter, other string) {
		run := detached(t, place, starter)
		list := tacho(t, place, other, "executors", "ls")
		// Earlier versions say alive.
		if !lineWith(list, run.Record.ID, "running") && !lineWith(list, run.Record.ID, "alive") {
			t.Errorf("tacho executors ls says\n%s", list)
		}
		tacho(t, place, other, "executors", "kill", run.Record.ID)
		ended(t, place, run)
	})
}

// What an executor left behind is cleared up by the other build.
func TestStrays(t *testing.T) {
	forPairs(t, "is cleared up by", func(t *testing.T, place *rig.Place, starter, other string) {
		run := detached(t, place, starter)
		rig.Kill(run.Record.Executor.PID)
		rig.Eventually(t, deadline, "the executor is gone", func() bool { return !rig.Alive(run.Record.Executor.PID) })
		tacho(t, place, other, "executors", "kill", run.Record.ID)
		rig.Eventually(t, deadline, "the task is gone", func() bool { return !rig.Alive(run.Record.PID) })
		if r := place.TheRun(t).Record; r.State != record.Lost {
			t.Errorf("the record says %s, want lost", r.State)
		}
	})
}

func lineWith(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return true
		}
	}
	return false
}

// TestReplacedBinary puts another build in the place of the file that an executor was started from, as an upgrade
// does, and a rollback.
func TestReplacedBinary(t *testing.T) {
	forPairs(t, "becomes", func(t *testing.T, place *rig.Place, starter, other string) {
		path := place.Path("tacho")
		install(t, starter, path)
		run := detached(t, place, path)
		install(t, other, path)
		exe, err := os.Readlink("/proc/" + strconv.Itoa(run.Record.Executor.PID) + "/exe")
		if err != nil || !strings.HasSuffix(exe, " (deleted)") {
			t.Errorf("the executor runs %q, %v; want the file that was replaced", exe, err)
		}
		if list := tacho(t, place, path, "ls", "--output-dir", place.Out); !strings.Contains(list, "running") {
			t.Errorf("tacho ls says\n%s", list)
		}
		tacho(t, place, path, "stop", "--output-dir", place.Out, "last")
		ended(t, place, run)
	})
}

// install puts a binary in the place of another as package managers do: under another name first, then renamed.
func install(t *testing.T, binary, path string) {
	t.Helper()
	from, err := os.Open(binary)
	testkit.Must(t, err)
	defer from.Close()
	to := testkit.Value(os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755))(t)
	_, err = io.Copy(to, from)
	testkit.Must(t, errors.Join(err, to.Close(), os.Rename(to.Name(), filepath.Clean(path))))
}
