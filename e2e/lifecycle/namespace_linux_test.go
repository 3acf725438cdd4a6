// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestElsewhere holds that no command leaves its own namespaces, boot or machine: a run that cannot be told from there,
// although its files can be read, is neither signalled nor removed nor called lost. Notes of earlier builds have no
// namespaces and no machine.
func TestElsewhere(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		t.Run(fmt.Sprintf("noted by an earlier build: %t", earlier), func(t *testing.T) {
			place := newPlace(t, rig.Self())
			r := detach(t, place, place.Run(t.Context(), "--detach", "--", rig.Workload(), "linger"))
			dir := place.TheRun(t).Dir
			alive := func(when string) {
				t.Helper()
				if !rig.Alive(r.Executor.PID) || !rig.Alive(r.PID) {
					t.Fatalf("%s ended the run", when)
				}
			}
			all := rig.Elsewheres(t)
			if earlier {
				// An address of a build before them has no machine, nor has one the PID namespace of the first.
				forget(t, filepath.Join(dir, "info.json"), "time_namespace")
				forget(t, filepath.Join(filepath.Dir(r.Socket), "executor.json"), "time_namespace", "host", "session")
				all = slices.DeleteFunc(all, func(e rig.Elsewhere) bool { return strings.HasPrefix(e.Where, "running on") })
			}
			for _, e := range all {
				call := func(args ...string) rig.Output {
					t.Helper()
					words := slices.Concat(e.Wrap[1:], []string{rig.Tacho()}, args)
					out := rig.Capture(t, place.Command(t.Context(), e.Wrap[0], words...))
					alive(e.Name + ": tacho " + strings.Join(args, " "))
					if text := out.Stdout + out.Stderr; strings.Contains(text, "lost") {
						t.Errorf("%s: tacho %s calls the run lost:\n%s", e.Name, strings.Join(args, " "), text)
					}
					return out
				}
				for _, args := range [][]string{
					{"ls", "--output-dir", place.Out},
					{"ls", "--state", "running", "--output-dir", place.Out},
					{"show", dir},
					{"diff", dir, dir},
					{"executors", "ls"},
				} {
					if out := call(args...); !strings.Contains(out.Stdout, e.Where) {
						t.Errorf("%s: tacho %s says not %q: %s%s", e.Name, strings.Join(args, " "), e.Where, out.Stdout, out.Stderr)
					}
				}
				for _, args := range [][]string{{"attach", dir}, {"stop", dir}, {"executors", "kill", r.ID}} {
					if out := call(args...); out.Code == 0 || !strings.Contains(out.Stderr, e.Where) {
						t.Errorf("%s: tacho %s: exit code %d and not %q: %s", e.Name, strings.Join(args, " "), out.Code, e.Where, out.Stderr)
					}
				}
				for _, args := range [][]string{
					{"prune", "--keep", "0", "--output-dir", place.Out},
					{"executors", "kill", "--orphans"},
					{"doctor"},
					{"run", "--no-files", "--", "true"},
				} {
					call(args...)
				}
				if out := rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "ls", "--output-dir", place.Out)); !strings.Contains(out.Stdout, "running") {
					t.Fatalf("%s: afterwards tacho ls says %s%s", e.Name, out.Stdout, out.Stderr)
				}
			}
			stop(t, place)
			gone(t, place)
		})
	}
}

// forget removes what an earlier build did not write from a file of JSON.
func forget(t *testing.T, path string, keys ...string) {
	t.Helper()
	var values map[string]any
	testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile(path))(t), &values))
	forgetIn := func(m map[string]any) {
		maps.DeleteFunc(m, func(key string, _ any) bool { return slices.Contains(keys, key) })
	}
	forgetIn(values)
	if executor, ok := values["executor"].(map[string]any); ok {
		forgetIn(executor)
	}
	testkit.Must(t, os.WriteFile(path, testkit.Value(json.Marshal(values))(t), 0o600))
}

// TestRenamedMachine holds that a run of this boot is ours, whatever the machine is called by now.
func TestRenamedMachine(t *testing.T) {
	rig.Elsewheres(t)
	place := newPlace(t, rig.Self())
	detach(t, place, place.Run(t.Context(), "--detach", "--", rig.Workload(), "linger"))
	out := rig.Capture(t, place.Command(t.Context(), "unshare", "--uts", "sh", "-c", `hostname another; exec "$@"`, "",
		rig.Tacho(), "stop", place.TheRun(t).Dir))
	if out.Code != 0 {
		t.Errorf("stop: exit code %d: %s", out.Code, out.Stderr)
	}
	gone(t, place)
}

// TestCleanUpSpeaksToTheStarter kills tacho run with its executor. What ends the rest is silent in another session, and
// says so in the one that started the run.
func TestCleanUpSpeaksToTheStarter(t *testing.T) {
	for _, session := range []bool{true, false} {
		place := newPlace(t, rig.Self())
		s, r := linger(t, place)
		for _, pid := range []int{s.cmd.Process.Pid, r.Executor.PID} {
			testkit.Must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		cmd := place.Command(t.Context(), rig.Tacho(), "ls")
		cmd.SysProcAttr.Setsid = session
		if out := rig.Capture(t, cmd); strings.Contains(out.Stderr, "had lost its executor") == session {
			t.Errorf("in another session: %t; it says %q", session, out.Stderr)
		}
		gone(t, place)
		if end := place.Closed(t); end.State != "lost" {
			t.Errorf("the record says %s", end.State)
		}
	}
}
