// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

func openWrites(t *testing.T) *Writes {
	t.Helper()
	w := testkit.Value(OpenWrites())(t)
	closing(t, w)
	return w
}

func write(t *testing.T, path string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte("1\n"), 0o600))
}

// TestWrites holds that a folder is marked after a write to a file in it, and after nothing else.
func TestWrites(t *testing.T) {
	t.Parallel()
	one, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(one, "cpu.max"))
	must(t, os.Mkdir(filepath.Join(one, "nested"), 0o700))
	w := openWrites(t)
	first := testkit.Value(w.Watch(one))(t)
	second := testkit.Value(w.Watch(other))(t)
	if _, err := w.Watch(one); !errors.Is(err, unix.EEXIST) {
		t.Errorf("watching a folder twice: %v, want EEXIST", err)
	}
	want := func(what string, wantFirst, wantSecond bool) {
		t.Helper()
		w.Look()
		if first.Written != wantFirst || second.Written != wantSecond {
			t.Errorf("%s: written %v and %v, want %v and %v", what, first.Written, second.Written, wantFirst, wantSecond)
		}
		first.Written, second.Written = false, false
	}
	want("nothing", false, false)
	if _, err := os.ReadFile(filepath.Join(one, "cpu.max")); err != nil {
		t.Fatal(err)
	}
	want("a read", false, false)
	write(t, filepath.Join(one, "nested", "cpu.max"))
	want("a write in a nested folder", false, false)
	write(t, filepath.Join(one, "cpu.max"))
	want("a write", true, false)
	for range 300 { // many reads of events
		write(t, filepath.Join(one, "cpu.max"))
		write(t, filepath.Join(other, "cpu.max"))
	}
	want("many writes", true, true)
	w.Leave(first)
	write(t, filepath.Join(one, "cpu.max"))
	must(t, os.RemoveAll(other))
	want("a folder that is left, and one that was removed", false, true)
	w.Leave(second)
	w.Leave(second)
	if again, err := w.Watch(one); err != nil || again.Written {
		t.Errorf("a folder that was left: %+v, %v", again, err)
	}
}

// TestWritesOverflow holds that all folders are marked when the kernel has dropped events.
func TestWritesOverflow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	var most int
	if _, err := fmt.Sscan(string(text), &most); err != nil || most > 1<<16 {
		t.Skipf("a queue of %d events takes too long to fill: %v", most, err)
	}
	one, other := t.TempDir(), t.TempDir()
	w := openWrites(t)
	if _, err := w.Watch(one); err != nil {
		t.Fatal(err)
	}
	second := testkit.Value(w.Watch(other))(t)
	var files [2]*os.File
	for i := range files {
		if files[i], err = os.Create(filepath.Join(one, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = files[i].Close() }()
	}
	for i := range most + 2 { // of two files in turns: the kernel merges equal events
		if _, err := files[i%2].WriteAt([]byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if w.Look(); !second.Written {
		t.Error("events were lost, and a folder is not marked")
	}
}
