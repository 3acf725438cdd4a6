// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rundir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/record"
)

// TestSplitIncomplete holds that a run that is starting is not incomplete, and that a directory with other files is never
// removed.
func TestSplitIncomplete(t *testing.T) {
	root := t.TempDir()
	add := func(name string, files ...string) string {
		dir := filepath.Join(root, name)
		store, err := record.Create(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	incomplete, others := add("incomplete", "stdout"), add("others", "notes.txt")
	lock, err := Lock(add("starting"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := List(root)
	if err != nil {
		t.Fatal(err)
	}
	gotOthers, gotIncomplete := SplitIncomplete(entries)
	dirs := func(entries []record.Entry) (list []string) {
		for _, entry := range entries {
			list = append(list, entry.Dir)
		}
		return list
	}
	if diff := cmp.Diff([][]string{{others}, {incomplete}}, [][]string{dirs(gotOthers), dirs(gotIncomplete)}); diff != "" {
		t.Errorf("others and incomplete (-want +got):\n%s", diff)
	}
	if err := RemoveIncomplete(filepath.Join(root, "starting")); err == nil {
		t.Error("a run that is starting was removed")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{incomplete, others} {
		if err := RemoveIncomplete(dir); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(incomplete); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", incomplete, err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Error(err)
	}
}
