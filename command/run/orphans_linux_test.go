// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
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
	for _, step := range []struct {
		age  time.Duration
		want []string
	}{
		{0, []string{"abandoned", "launched", "owned", "somebody else's"}},
		{2 * unlaunchedAge, []string{"launched", "owned", "somebody else's"}},
	} {
		if err := removeUnlaunched(runtime, time.Now().Add(step.age)); err != nil {
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
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.age, diff)
		}
	}
}
