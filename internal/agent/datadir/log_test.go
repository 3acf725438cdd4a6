// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestOpenLog goes on behind a file, which is there or not.
func TestOpenLog(t *testing.T) {
	a := In(t.TempDir(), "11111111-2222-4333-8444-555555555555")
	testkit.Must(t, os.MkdirAll(a.Logs(), 0o700))
	path := func(name string) string { return filepath.Join(a.Logs(), name) }
	for name, text := range map[string]string{"t.stdout.9": "nine ", "t.stdout.10": "ten ", "t.stdout.12": "twelve"} {
		testkit.Must(t, os.WriteFile(path(name), []byte(text), 0o600))
	}
	all := []string{path("t.stdout.9"), path("t.stdout.10"), path("t.stdout.12")}
	for after, want := range map[int]struct {
		files []string
		text  string
	}{
		WholeLog: {all, "nine ten twelve"}, 8: {all, "nine ten twelve"}, 9: {all[1:], "ten twelve"}, 11: {all[2:], "twelve"},
	} {
		log := testkit.Value(a.OpenLog("t", "stdout", after))(t)
		text, err := io.ReadAll(log)
		if diff := cmp.Diff(want.files, log.paths); diff != "" || log.Last != 12 || string(text) != want.text || err != nil {
			t.Errorf("after %d: %q, %v; %s", after, text, err, diff)
		}
		testkit.NoError(t, log.Close())
	}
	if log, err := a.OpenLog("t", "stdout", 12); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the last: %v, %v", log, err)
	}
}
