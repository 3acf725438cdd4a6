// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// collect takes one sample of its own moment.
func collect(s *procstats.Sample, sources ...Source) {
	s.Reset()
	s.Stamp = kernel.Now()
	for _, source := range sources {
		source.Collect(s)
	}
	for _, source := range sources {
		if tree, ok := source.(*treeSource); ok {
			tree.closeSum(s)
		}
	}
}

// testClock is a clock that a test moves; each look at it moves it by step.
type testClock struct{ mono, step time.Duration }

func (c *testClock) now() procstats.Stamp {
	c.mono += c.step
	return procstats.Stamp{Mono: c.mono, Wall: time.Unix(0, int64(c.mono))}
}

// mustNumber returns a measurement of the task that has to be there.
func mustNumber(tb testing.TB, s *procstats.Sample, id procstats.ID) float64 {
	tb.Helper()
	value, ok := s.Task.Number(id)
	if !ok {
		r, _ := s.Task.Get(id)
		tb.Fatalf("%s is absent: %q", id.String(), r.Reason())
	}
	return value
}

// update rewrites golden files and generated docs instead of comparing them: go test ./procstats/source -update.
var update = flag.Bool("update", false, "rewrite golden files and generated docs")

// golden compares got with a file, or writes the file under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./procstats/source -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-file +got; go test ./procstats/source -update rewrites it):\n%s", path, diff)
	}
}

// The helpers of package testkit, by short names.
var (
	must    = testkit.Must
	noError = testkit.NoError
	closing = testkit.Closing
)

// writeFiles writes files below a folder, which they make.
func writeFiles(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must(tb, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
	}
}
