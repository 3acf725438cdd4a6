// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TestSettings holds that settings are read again after a write to one, and else once in a long time; without a watch
// at every collection.
func TestSettings(t *testing.T) {
	for _, watches := range []bool{true, false} {
		dir := t.TempDir()
		put := func(name, text string) { writeFiles(t, dir, map[string]string{name: text}) }
		put("memory.current", "1\n")
		put("memory.max", "100\n")
		put("pids.max", "max\n")
		shared := &Shared{Watches: watches}
		r := openCgroup(Target{Cgroup: procstats.Cgroup{V2: dir}, Shared: shared}, procstats.SourceSelection(procstats.SourceCgroup))
		now := time.Hour
		want := func(what string, id procstats.ID, value float64) {
			t.Helper()
			s := &procstats.Sample{Stamp: procstats.Stamp{Mono: now}}
			r.Collect(s)
			if got, _ := s.Task.Get(id); got != procstats.NumberReading(id, value) {
				t.Errorf("watches %v, %s: %+v, want %v", watches, what, got, value)
			}
			now += time.Second
		}
		want("at first", procstats.CgroupMemoryMax, 100)
		put("memory.current", "2\n")
		want("no setting", procstats.CgroupMemoryCurrent, 2)
		put("memory.max", "200\n")
		put("pids.max", "7\n")
		want("written", procstats.CgroupMemoryMax, 200)
		want("written together", procstats.CgroupPidsMax, 7)

		// The kernel can change what it says without a write that is seen.
		put("new", "300\n")
		want("another file", procstats.CgroupMemoryMax, 200)
		must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "memory.max")))
		if watches {
			want("unseen", procstats.CgroupMemoryMax, 200)
			now += settingsInterval
			want("unseen, later", procstats.CgroupMemoryMax, 300)
		}
		noError(t, r.Close())
		noError(t, shared.Close())
	}
}

// TestSettingsThatFail has a setting that cannot be read once, and holds that it is tried again at each collection,
// whatever is written.
func TestSettingsThatFail(t *testing.T) {
	dir := t.TempDir()
	path, aside := filepath.Join(dir, "memory.max"), filepath.Join(dir, "aside")
	writeFiles(t, dir, map[string]string{"memory.current": "1\n", "memory.max": "100\n"})
	shared := &Shared{Watches: true}
	defer shared.Close()
	r := openCgroup(Target{Cgroup: procstats.Cgroup{V2: dir}, Shared: shared}, procstats.SourceSelection(procstats.SourceCgroup))
	defer r.Close()
	now := time.Hour
	read := func() (float64, bool) {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: now}}
		r.Collect(s)
		now += time.Second
		return s.Task.Number(procstats.CgroupMemoryMax)
	}
	if got, ok := read(); !ok || got != 100 {
		t.Fatalf("at first: %v, %v", got, ok)
	}
	must(t, errors.Join(os.Rename(path, aside), os.Mkdir(path, 0o700)))
	now += settingsInterval
	for range 3 {
		if got, ok := read(); ok {
			t.Errorf("a directory in its place: %v", got)
		}
	}
	must(t, errors.Join(os.Remove(path), os.Rename(aside, path)))
	if got, ok := read(); !ok || got != 100 {
		t.Errorf("readable again: %v, %v", got, ok)
	}
}

// TestSettingsTakeNoDescriptor holds that settings are opened for each read where they are to be watched, also where
// that fails: a directory is watched for one task.
func TestSettingsTakeNoDescriptor(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte("100\n"), 0o600))
	shared := &Shared{Watches: true}
	defer shared.Close()
	for _, watched := range []bool{true, false} {
		r := openCgroupReader(procstats.SourceCgroup, Target{Cgroup: procstats.Cgroup{V2: dir}, Shared: shared}, procstats.SourceSelection(procstats.SourceCgroup))
		defer r.Close()
		if r.settings.watched != watched {
			t.Fatalf("watched: %v, want %v", r.settings.watched, watched)
		}
		for i := range r.files {
			if f := &r.files[i]; f.spec.setting && f.kept.IsOpen() {
				t.Errorf("watched %v: %s is open", watched, f.spec.name)
			}
		}
	}
}
