// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
)

// TestFewDescriptors has a limit of open files at which each step of a start fails in its turn: one clear line says
// so, and nothing is left.
func TestFewDescriptors(t *testing.T) {
	needShell(t)
	for _, limit := range []int{8, 12, 16, 20, 24, 32, 48, 64} {
		place := newPlace(t, rig.Unprivileged())
		args := []string{"-c", fmt.Sprintf("ulimit -n %d; exec \"$@\"", limit), "sh", rig.Tacho(), "run", "-q", "--no-files", "--", "/bin/true"}
		out := rig.Capture(t, place.Command(t.Context(), "/bin/sh", args...))
		if out.Code != 0 && (out.Code != 125 || strings.Count(out.Stderr, "\n") != 1) {
			t.Errorf("limit %d: exit code %d: %s", limit, out.Code, out.Stderr)
		}
		for _, left := range place.Leftovers() {
			t.Errorf("limit %d left behind: %s", limit, left)
		}
	}
}
