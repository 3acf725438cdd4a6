// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestCountsHaveTheirNoun holds that what counts things in a text is procstats.Counted, which knows that there can be
// one: no format has a plural behind its number, except for sizes and bounds that never are 1.
func TestCountsHaveTheirNoun(t *testing.T) {
	plural := regexp.MustCompile(`(%d|%\.0f|\{\{(?:count )?[.(][^}]*\}\}|%v) (?:[a-z]+ )?([a-z]+[a-rt-z]s)\b`)
	const verbs = " is was has does others others: bytes characters lines spaces ns "
	large := map[string]string{ // why the number is not 1
		"driver/sampling/reading.go %d tasks": "a limit of many", "executor/cgroup/limits.go %v cores": "a constant",
		"executor/cgroup/limits.go %.0f cores": "a constant", "executor/record/advice.go %d days": "2 or more",
		"executor/record/describe.go %d processes": "2 or more", "procstats/source/threads_linux.go %d threads": "a constant",
		"procstats/exits/checks_linux.go %d other processes": "a constant or more",
		"internal/series/ring.go %d measurements":            "too many", "internal/agent/config/config.go %d readings": "a constant",
		"internal/agent/job/parse.go %d tasks": "a constant", "internal/agent/job/parse.go %d allocations": "a constant",
		"internal/agent/job/template.go %d steps":       "a constant",
		"internal/agent/alloc/driver.go %d bytes needs": "a verb", "internal/agent/state/pages.go %d says": "a verb",
		"internal/agent/state/pages.go %d pages": "of damaged files", "internal/agent/state/pages.go %d elements": "of damaged files",
		"internal/agent/state/pages.go %d free pages": "of damaged files", "internal/command/run/repeat.go %d commands": "2 or more",
		"internal/command/remote/alloc.go %d running allocations": "2 or more", "internal/command/run/limits.go %v cores": "a constant",
		"internal/cluster/prometheus.go %d days": "a span of many", "internal/command/repeat/repeat.go %d runs": "2 or more", "internal/removal/removal.go %d entries": "2 or more",
	}
	testkit.Must(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		source := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pb.go")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "e2e" || path == ".git"):
			return fs.SkipDir
		case entry.IsDir() || !source && !strings.HasSuffix(path, ".html") && !strings.HasSuffix(path, ".tmpl"):
			return nil
		}
		for _, found := range plural.FindAllStringSubmatch(string(testkit.Value(os.ReadFile(path))(t)), -1) {
			place := filepath.ToSlash(path) + " " + found[0]
			if large[place] == "" && !strings.Contains(verbs, " "+found[2]+" ") {
				t.Errorf("%s: %q reads wrong for 1; use procstats.Counted", path, found[0])
			}
		}
		return nil
	}))
}
