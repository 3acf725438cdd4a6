// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestRunWithinTask has tasks of this and of another user run a command and record it, with the TMPDIR of the task.
func TestRunWithinTask(t *testing.T) {
	rig.Require(t)
	if os.Geteuid() != 0 {
		t.Skip("starting a task as another user takes root")
	}
	h := hostWithAgent(t, "")
	testkit.Must(t, os.Chmod(h.dir, 0o755))
	for _, user := range []string{"root", "nobody"} {
		script := rig.Tacho() + " run -q -- sh -c 'touch $TMPDIR/mine && echo measured' >out 2>&1 && ls .tacho/runs >>out"
		text := shellJob("within"+user, "batch", noRestart, 64, script)
		h.run(strings.Replace(text, "config {", "user = \""+user+"\"\nconfig {", 1))
		a := h.find("within"+user, "the end", func(a *allocation) bool {
			return a.ClientStatus == "complete" || a.ClientStatus == "failed"
		})
		out := string(testkit.Value(os.ReadFile(filepath.Join(h.data(), "alloc", a.ID, "t/out")))(t))
		if a.ClientStatus != "complete" || !strings.HasPrefix(out, "measured\n") || strings.Count(out, "\n") != 2 {
			t.Errorf("as %q: %s, %q", user, a.ClientStatus, out)
		}
	}
}
