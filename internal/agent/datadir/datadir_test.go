// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// TestAllExecutors holds that every directory that an agent may choose for its executors is found.
func TestAllExecutors(t *testing.T) {
	runtimeDir, dataDir := t.TempDir(), filepath.Join("srv", "tacho")
	shared := filepath.Join(runtimeDir, SharedName(dataDir))
	testkit.Must(t, os.Mkdir(shared, 0o700))
	if got, want := AllExecutors(runtimeDir, dataDir), []string{shared, Executors(dataDir)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
