// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoRoom names the limit that was reached, of the groups above.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	again := &fs.PathError{Op: "mkdir", Path: "it", Err: unix.EAGAIN}
	full := map[string]string{
		"pids.max": "max", "pids.current": "3", "cgroup.max.descendants": "max", "cgroup.max.depth": "max",
		"cgroup.stat": "nr_descendants 4\nnr_dying_descendants 9",
	}
	with := func(file, text string) map[string]string {
		changed := maps.Clone(full)
		changed[file] = text
		return changed
	}
	for name, test := range map[string]struct {
		err          error
		kind         string
		above, files map[string]string
		want         string // %s is the group above
	}{
		"processes":             {again, ofProcesses, with("pids.max", "3"), full, "mkdir it: resource temporarily unavailable: %s/pids.max is 3, and 3 are there"},
		"an executor's threads": {again, ofProcesses, with("pids.max", "12"), with("pids.max", "30"), "mkdir it: resource temporarily unavailable: %s/pids.max is 12, and 3 are there"},
		"groups":                {again, ofGroups, with("cgroup.max.descendants", "4"), full, "mkdir it: resource temporarily unavailable: %s/cgroup.max.descendants is 4, and 4 are there"},
		"levels":                {again, ofGroups, with("cgroup.max.depth", "1"), full, "mkdir it: resource temporarily unavailable: %s/cgroup.max.depth is 1, and 1 are there"},
		"of the other kind":     {again, ofProcesses, with("cgroup.max.depth", "0"), full, again.Error()},
		"room":                  {again, ofProcesses, with("pids.max", "40"), full, again.Error()},
		"no controller":         {again, ofProcesses, nil, nil, again.Error()},
		"another error":         {unix.ENOSPC, ofProcesses, with("pids.max", "3"), full, unix.ENOSPC.Error()},
	} {
		above := captured(t, test.above)
		dir := filepath.Join(above, "task")
		must(t, os.Mkdir(dir, 0o755))
		for file, text := range test.files {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		}
		want := test.want
		if strings.Contains(want, "%s") {
			want = fmt.Sprintf(want, above)
		}
		got := noRoom(test.err, test.kind, []string{dir, ""})
		if got.Error() != want || !errors.Is(got, errors.Unwrap(test.err)) && !errors.Is(got, test.err) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}
