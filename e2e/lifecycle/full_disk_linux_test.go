// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestFullDisk runs a command with room for 0, 1, 2, ... pages or files in its record directory or its runtime
// directory, until there is enough: each write is once the first that fails; without TACHO_CHAOS=all not each page
// is. Either the command was never started, tacho says so and nothing is left; or it ran once, tacho exits with its
// code, and says what the record lacks.
func TestFullDisk(t *testing.T) {
	rig.Require(t)
	needShell(t)
	for _, detach := range []bool{false, true} {
		for _, where := range []string{"record", "runtime"} {
			for _, unit := range []string{"nr_blocks", "nr_inodes"} {
				t.Run(fmt.Sprintf("detach=%t/%s/%s", detach, where, unit), func(t *testing.T) {
					const usual, most = 60, 4000 // a busy machine prolongs the command, which then has more reports
					step := 1
					if unit == "nr_blocks" && os.Getenv("TACHO_CHAOS") != "all" {
						step = 6
					}
					var outcomes strings.Builder
					for free := 0; free < most; free += step {
						if free > usual {
							step *= 2
						}
						outcome := fullDisk{detach: detach, record: where == "record", unit: unit, free: free}.try(t)
						outcomes.WriteString(outcome)
						if outcome == "." {
							t.Log(outcomes.String())
							return
						}
					}
					t.Errorf("%s: %d are not enough", &outcomes, most)
				})
			}
		}
	}
}

// fullDisk is one way in which a disk is full.
type fullDisk struct {
	detach, record bool
	unit           string
	free           int
}

// try returns "." if nothing was missing, "-" if the command was not started, and "i" if its record is incomplete.
func (f fullDisk) try(t *testing.T) (outcome string) {
	t.Helper()
	place := rig.NewPlace(t, rig.Unprivileged())
	f.mount(t, place)
	script := "echo $$ >> ../starts; for i in 1 2 3; do sleep 0.04; echo $i; done; exit 7"
	flags := []string{"--interval", "10ms", "--report-interval", "10ms"}
	if f.detach {
		flags = append(flags, "--detach")
	} else {
		flags = append(flags, "--capture", "stdout")
	}
	testkit.Must(t, os.Chmod(filepath.Dir(place.Dir), 0o777))
	if !f.record {
		flags = append(flags, "--runtime-dir", runtimeDir(place)) // or another directory would be taken
	}
	out := rig.Capture(t, place.Run(t.Context(), append(flags, "--", "/bin/sh", "-c", script)...))
	started := 0
	if text, err := os.ReadFile(filepath.Join(place.Dir, "..", "starts")); err == nil {
		started = strings.Count(string(text), "\n")
	}
	defer func() {
		if t.Failed() {
			t.Logf("with %d %s: started %d times, exit code %d, %s%s", f.free, f.unit, started, out.Code, out.Stdout, out.Stderr)
		}
	}()
	if f.detach && out.Code == 0 {
		out = rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "attach", "--output-dir", place.Out, "last"))
		text, _ := os.ReadFile(filepath.Join(place.Dir, "..", "starts"))
		started = strings.Count(string(text), "\n")
	}
	f.gone(t, place)
	runs := place.Runs(t)
	switch {
	case started == 0:
		if out.Code != 125 || !strings.Contains(out.Stderr, syscall.ENOSPC.Error()) {
			t.Errorf("with %d %s the command was not started, exit code %d: %s", f.free, f.unit, out.Code, out.Stderr)
		}
		left, _ := filepath.Glob(filepath.Join(place.Out, "*"))
		if left = slices.DeleteFunc(left, func(path string) bool { return filepath.Base(path) == filling }); len(left) > 0 {
			t.Errorf("with %d %s the command was not started, and %s is left", f.free, f.unit, left)
		}
		return "-"
	case started > 1:
		t.Errorf("with %d %s the command was started %d times", f.free, f.unit, started)
	case out.Code != 7:
		t.Errorf("with %d %s the command was started, exit code %d, want 7: %s", f.free, f.unit, out.Code, out.Stderr)
	}
	whole := len(runs) == 1 && runs[0].Record.State == record.Exited && runs[0].Record.Incomplete == ""
	if said := strings.Contains(out.Stderr, syscall.ENOSPC.Error()); whole == said {
		t.Errorf("with %d %s: the record is whole: %t; stderr: %s", f.free, f.unit, whole, out.Stderr)
	}
	if !whole {
		return "i"
	}
	return "."
}

func runtimeDir(place *rig.Place) string { return filepath.Join(filepath.Dir(place.Dir), "t") }

// filling is a file that takes the one page of a full disk.
const filling = "filling"

// mount puts a full file system where the files go.
func (f fullDisk) mount(t *testing.T, place *rig.Place) {
	t.Helper()
	dir := place.Out
	if !f.record {
		dir = runtimeDir(place)
	}
	testkit.Must(t, os.MkdirAll(dir, 0o700))
	const used = 1 // of 0 there would be no limit, and the root takes an inode
	options := fmt.Sprintf("mode=700,uid=%d,%s=%d", place.User.UID, f.unit, f.free+used)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { testkit.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	if f.unit == "nr_blocks" {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, filling), []byte("x"), 0o600))
	}
}

// gone waits until no process is left.
func (f fullDisk) gone(t *testing.T, place *rig.Place) {
	t.Helper()
	rig.Eventually(t, deadline, "nothing runs any more", func() bool { return len(place.Strays()) == 0 })
}
