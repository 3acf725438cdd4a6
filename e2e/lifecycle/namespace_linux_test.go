// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
)

// TestOtherPIDNamespace holds that a command in a container which shares the runtime directory leaves a run of the
// machine alone: none of its process ids exists there, which says nothing of the run.
func TestOtherPIDNamespace(t *testing.T) {
	if _, err := exec.LookPath("unshare"); err != nil || os.Geteuid() != 0 {
		t.Skip("making PID namespaces requires root and unshare(1)")
	}
	place := newPlace(t, rig.Self())
	r := detach(t, place, place.Run(t.Context(), "--detach", "--", rig.Workload(), "linger"))
	dir := place.TheRun(t).Dir
	inside := func(args ...string) rig.Output {
		args = append([]string{"--pid", "--fork", "--mount-proc", rig.Tacho()}, args...)
		return rig.Capture(t, place.Command(t.Context(), "unshare", args...))
	}
	for _, args := range [][]string{{"ls"}, {"doctor"}, {"run", "--no-files", "--", "true"}, {"executors", "kill", "--orphans"}, {"prune"}} {
		out := inside(args...)
		if strings.Contains(out.Stderr, "lost its executor") || !rig.Alive(r.Executor.PID) || !rig.Alive(r.PID) {
			t.Fatalf("tacho %s killed the run: exit code %d, %s%s", strings.Join(args, " "), out.Code, out.Stdout, out.Stderr)
		}
	}
	if out := inside("executors", "ls"); !strings.Contains(out.Stdout, "elsewhere") {
		t.Errorf("executors ls: exit code %d, %s%s", out.Code, out.Stdout, out.Stderr)
	}
	if out := inside("stop", dir); out.Code == 0 || !strings.Contains(out.Stderr, "another PID namespace") {
		t.Errorf("stop: exit code %d, %s%s", out.Code, out.Stdout, out.Stderr)
	}
	stop(t, place)
	gone(t, place)
}
