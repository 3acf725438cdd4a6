// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestPruneLeavesMounts mounts a file system in the directory of a run: prune removes all but that, names it, and finds
// the run again.
func TestPruneLeavesMounts(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	place := rig.NewPlace(t, rig.Self())
	testkit.Equal(t, rig.Capture(t, place.Run(t.Context(), "--", "/bin/true")).Code, 0, "exit code")
	dir := place.Runs(t)[0].Dir
	mounted := filepath.Join(dir, "down/mounted")
	testkit.Must(t, os.MkdirAll(mounted, 0o755))
	testkit.Must(t, unix.Mount("tmpfs", mounted, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) }) // for a test that failed
	prune := func() rig.Output {
		return rig.Capture(t, place.Command(t.Context(), rig.Tacho(), "prune", "--output-dir", place.Out, "--keep", "0"))
	}
	for range 2 {
		out := prune()
		if out.Code != 1 || !strings.Contains(out.Stderr, dir+" is not removed: down/mounted: another directory or file is mounted on it") {
			t.Errorf("exit code %d: %s", out.Code, out.Stderr)
		}
		if left := place.Runs(t); len(left) != 1 || left[0].Record == nil {
			t.Errorf("left: %+v", left)
		}
	}
	testkit.Must(t, unix.Unmount(mounted, 0))
	if out := prune(); out.Code != 0 || len(place.Runs(t)) != 0 {
		t.Errorf("exit code %d: %s", out.Code, out.Stderr)
	}
}
