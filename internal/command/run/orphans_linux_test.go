// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/procstats"
)

// TestRemoveUnlaunched holds that only abandoned directories of executors that never had a task are removed.
func TestRemoveUnlaunched(t *testing.T) {
	runtime := t.TempDir()
	mkdir := func(name string) string {
		folder := filepath.Join(runtime, name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	lock := func(folder string) *os.File {
		file, err := os.Create(filepath.Join(folder, "owner.lock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	lock(mkdir("abandoned"))
	if err := unix.Flock(int(lock(mkdir("owned")).Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	launched := mkdir("launched")
	lock(launched)
	if err := (&wire.Address{ID: "launched", Folder: launched}).Write(); err != nil {
		t.Fatal(err)
	}
	mkdir("somebody else's")
	mkdir(".start-killed before it was locked")
	lock(mkdir(".start-killed"))
	if err := unix.Flock(int(lock(mkdir(".start-now")).Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := removeUnlaunched(runtime); err != nil {
		t.Fatal(err)
	}
	var got []string
	entries, err := os.ReadDir(runtime)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff([]string{".start-now", "launched", "owned", "somebody else's"}, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestOrphans holds that a run which has ended as it should, after it was listed, is none, and that one is whose executor has left its
// folder.
func TestOrphans(t *testing.T) {
	address := &wire.Address{ID: "run", Folder: filepath.Join(t.TempDir(), "run"), Executor: procstats.ProcessID{PID: 1, Start: 1}}
	if isOrphan(t.Context(), address) {
		t.Error("a run without a folder has been lost")
	}
	if err := os.Mkdir(address.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := address.Write(); err != nil {
		t.Fatal(err)
	}
	if !isOrphan(t.Context(), address) {
		t.Error("a run whose executor and owner are dead has not been lost")
	}
}
