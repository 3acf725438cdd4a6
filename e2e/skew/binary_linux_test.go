// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package skew

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
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

// need builds both, so that a test that has to be skipped has started nothing.
func need(t *testing.T, pair [2]build) {
	t.Helper()
	for _, b := range pair {
		b.binary(t)
	}
}

// detached starts a task that runs on without its caller, and returns its record.
func detached(t *testing.T, place *rig.Place, binary string) record.Entry {
	t.Helper()
	out := rig.Capture(t, place.Command(t.Context(), binary, "run", "--detach", "--output-dir", place.Out, "--interval", "50ms",
		"--", "sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.02; done"))
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
	for _, pair := range pairs() {
		t.Run(pair[0].name+" is stopped by "+pair[1].name, func(t *testing.T) {
			need(t, pair)
			place := rig.NewPlace(t, rig.Self())
			run := detached(t, place, pair[0].binary(t))
			out := rig.Capture(t, place.Command(t.Context(), pair[1].binary(t), "stop", "--output-dir", place.Out, "last"))
			if out.Code != 0 {
				t.Errorf("tacho stop: code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
			}
			ended(t, place, run)
			show := rig.Capture(t, place.Command(t.Context(), pair[1].binary(t), "show", "--output-dir", place.Out, "last"))
			if show.Code != 0 || !strings.Contains(show.Stdout, "stopped") {
				t.Errorf("tacho show: code %d\n%s%s", show.Code, show.Stdout, show.Stderr)
			}
		})
	}
}

func TestExecutors(t *testing.T) {
	for _, pair := range pairs() {
		t.Run(pair[0].name+" is killed by "+pair[1].name, func(t *testing.T) {
			need(t, pair)
			place := rig.NewPlace(t, rig.Self())
			run := detached(t, place, pair[0].binary(t))
			list := rig.Capture(t, place.Command(t.Context(), pair[1].binary(t), "executors", "ls"))
			// Earlier versions say alive.
			if list.Code != 0 || !lineWith(list.Stdout, run.Record.ID, "running") && !lineWith(list.Stdout, run.Record.ID, "alive") {
				t.Errorf("tacho executors ls: code %d\n%s%s", list.Code, list.Stdout, list.Stderr)
			}
			out := rig.Capture(t, place.Command(t.Context(), pair[1].binary(t), "executors", "kill", run.Record.ID))
			if out.Code != 0 {
				t.Errorf("tacho executors kill: code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
			}
			ended(t, place, run)
		})
	}
}

// What an executor left behind is cleared up by the other build.
func TestStrays(t *testing.T) {
	for _, pair := range pairs() {
		t.Run(pair[0].name+" is cleared up by "+pair[1].name, func(t *testing.T) {
			need(t, pair)
			place := rig.NewPlace(t, rig.Self())
			run := detached(t, place, pair[0].binary(t))
			rig.Kill(run.Record.Executor.PID)
			rig.Eventually(t, deadline, "the executor is gone", func() bool { return !rig.Alive(run.Record.Executor.PID) })
			out := rig.Capture(t, place.Command(t.Context(), pair[1].binary(t), "executors", "kill", run.Record.ID))
			if out.Code != 0 {
				t.Errorf("tacho executors kill: code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
			}
			rig.Eventually(t, deadline, "the task is gone", func() bool { return !rig.Alive(run.Record.PID) })
			if r := place.TheRun(t).Record; r.State != record.Lost {
				t.Errorf("the record says %s, want lost", r.State)
			}
		})
	}
}

func lineWith(text string, words ...string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		found := true
		for _, word := range words {
			found = found && strings.Contains(line, word)
		}
		if found {
			return true
		}
	}
	return false
}

// TestReplacedBinary puts another build in the place of the file that an executor was started from, as an upgrade
// does, and a rollback.
func TestReplacedBinary(t *testing.T) {
	for _, pair := range pairs() {
		t.Run(pair[0].name+" becomes "+pair[1].name, func(t *testing.T) {
			need(t, pair)
			place := rig.NewPlace(t, rig.Self())
			path := place.Path("tacho")
			install(t, pair[0].binary(t), path)
			run := detached(t, place, path)
			install(t, pair[1].binary(t), path)
			exe, err := os.Readlink("/proc/" + pid(run.Record.Executor.PID) + "/exe")
			if err != nil || !strings.HasSuffix(exe, " (deleted)") {
				t.Errorf("the executor runs %q, %v; want the file that was replaced", exe, err)
			}
			if out := rig.Capture(t, place.Command(t.Context(), path, "ls", "--output-dir", place.Out)); out.Code != 0 ||
				!strings.Contains(out.Stdout, "running") {
				t.Errorf("tacho ls: code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
			}
			if out := rig.Capture(t, place.Command(t.Context(), path, "stop", "--output-dir", place.Out, "last")); out.Code != 0 {
				t.Errorf("tacho stop: code %d\n%s%s", out.Code, out.Stdout, out.Stderr)
			}
			ended(t, place, run)
		})
	}
}

// install puts a binary in the place of another as package managers do: under another name first, then renamed.
func install(t *testing.T, binary, path string) {
	t.Helper()
	from, err := os.Open(binary)
	rig.Must(t, err)
	defer from.Close()
	to, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	rig.Must(t, err)
	_, err = io.Copy(to, from)
	rig.Must(t, errors.Join(err, to.Close(), os.Rename(to.Name(), filepath.Clean(path))))
}

func pid(n int) string { return strconv.Itoa(n) }
