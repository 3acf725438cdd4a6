// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
)

// update rewrites golden files and generated docs instead of comparing them: go test ./procstats -update.
var update = flag.Bool("update", false, "rewrite golden files and generated docs")

// golden compares got with a file, or writes the file under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./procstats -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-file +got; go test ./procstats -update rewrites it):\n%s", path, diff)
	}
}
