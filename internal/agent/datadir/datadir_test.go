// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package datadir

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestAllDev holds that the newest directory comes first, and that files of the same name are skipped.
func TestAllDev(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", os.Getenv("TMPDIR")) // Windows
	older := testkit.Value(NewDev())(t)
	newer := testkit.Value(NewDev())(t)
	testkit.Must(t, os.Chtimes(older, time.Time{}, time.Now().Add(-time.Hour)))
	testkit.Must(t, os.WriteFile(filepath.Join(os.TempDir(), "tacho-dev-file"), nil, 0o600))
	if got, want := AllDev(), []string{newer, older}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDevWithoutTMPDIR holds that a development agent starts, and is found, wherever TMPDIR leads.
func TestDevWithoutTMPDIR(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("TMPDIR is of Unix")
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", Longest))
	testkit.Must(t, os.Mkdir(long, 0o700))
	for what, dir := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "missing"), "relative": ".", "too long": long, "a file": os.Args[0],
	} {
		t.Setenv("TMPDIR", dir)
		made, err := NewDev()
		if err != nil || len(Socket(made)) > paths.LongestSocket || !slices.Contains(AllDev(), made) {
			t.Errorf("%s: created %q (%v), found %q", what, made, err, AllDev())
		}
		testkit.NoError(t, os.Remove(made))
	}
}

// TestAllExecutors holds that every directory that an agent may choose for its executors is found.
func TestAllExecutors(t *testing.T) {
	runtimeDir, dataDir := t.TempDir(), filepath.Join("srv", "tacho")
	shared := filepath.Join(runtimeDir, SharedName(dataDir))
	testkit.Must(t, os.Mkdir(shared, 0o700))
	if got, want := AllExecutors([]string{runtimeDir}, []string{dataDir}), []string{runtimeDir, shared, Executors(dataDir)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
