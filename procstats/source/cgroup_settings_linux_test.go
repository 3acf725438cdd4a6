// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// TestSettings holds that settings are read again after a write to one, and else once in a long time; without a watch at
// every collection.
func TestSettings(t *testing.T) {
	for _, watches := range []bool{true, false} {
		dir := t.TempDir()
		put := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("memory.current", "1\n")
		put("memory.max", "100\n")
		put("pids.max", "max\n")
		shared := &Shared{Watches: watches}
		r := OpenCgroup(Target{Cgroup: procstats.Cgroup{V2: dir}, Shared: shared}, procstats.SourceSelection(procstats.SourceCgroup))
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
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "memory.max")); err != nil {
			t.Fatal(err)
		}
		if watches {
			want("unseen", procstats.CgroupMemoryMax, 200)
			now += settingsInterval
			want("unseen, later", procstats.CgroupMemoryMax, 300)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	}
}
