// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// cgroupDirs lists the folders of a cgroup, each once.
func cgroupDirs(c procstats.Cgroup) []string {
	dirs := slices.Collect(maps.Values(c.V1))
	if c.V2 != "" {
		dirs = append(dirs, c.V2)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// TestHostCgroupRemoved removes the cgroup from under kept-open files.
func TestHostCgroupRemoved(t *testing.T) {
	t.Run("read each time", func(t *testing.T) { testHostCgroupRemoved(t, nil) })
	t.Run("settings watched", func(t *testing.T) { testHostCgroupRemoved(t, &Shared{Watches: true}) })
}

func testHostCgroupRemoved(t *testing.T, shared *Shared) {
	t.Helper()
	c := makeCgroups(t)
	target := Target{FS: kernel.HostFS(), Cgroup: c, Shared: shared}
	sources := map[procstats.SourceID]Source{}
	var before procstats.Sample
	for id, open := range cgroupSources() {
		sources[id] = open(target, procstats.Select(idsOf(id)...))
		t.Cleanup(func() { _ = sources[id].Close() })
		sources[id].Collect(&before)
	}
	for _, dir := range cgroupDirs(c) {
		must(t, os.Remove(dir))
	}
	var after, again procstats.Sample
	for _, s := range sources {
		s.Collect(&after)
		s.Collect(&again)
	}
	for _, r := range before.Task {
		got, _ := after.Task.Get(r.ID())
		if row, _ := procstats.Lookup(r.ID()); got.Present() || r.Present() && !strings.HasPrefix(got.Reason(), "cgroup was removed, noticed at ") {
			t.Errorf("%s: %v %q, want it absent because the cgroup was removed, and when", row.Name, got.Present(), got.Reason())
		}
	}
	for range again.Sources.All() {
		t.Errorf("stamped %v although nothing was left to read", again.Sources)
	}
}

// TestHostPressureSwitchedOff covers cgroup.pressure, which is there since Linux 6.1.
func TestHostPressureSwitchedOff(t *testing.T) {
	c := makeCgroups(t)
	target := Target{FS: kernel.HostFS(), Cgroup: c}
	if c.V2 == "" {
		t.Skip("there is no cgroup v2 here")
	}
	s := openPSI(target, procstats.Select(idsOf(procstats.SourcePSI)...))
	t.Cleanup(func() { _ = s.Close() })
	if !s.Describe().Available {
		t.Skip("no pressure files here: " + s.Describe().Reason)
	}
	if err := os.WriteFile(filepath.Join(c.V2, "cgroup.pressure"), []byte("0"), 0); err != nil {
		t.Skipf("it cannot be switched off here: %v", err)
	}
	const want = "pressure accounting is switched off for this cgroup: cgroup.pressure is 0"
	var kept procstats.Sample
	s.Collect(&kept)
	d, opened := collectAll(t, procstats.SourcePSI, target)
	for name, sample := range map[string]procstats.Sample{"kept open": kept, "opened": opened} {
		for _, id := range idsOf(procstats.SourcePSI) {
			if r, _ := sample.Task.Get(id); r.Present() || !strings.HasPrefix(r.Reason(), want) {
				t.Errorf("%s: %v %q, want absent: %s", name, r.Present(), r.Reason(), want)
			}
		}
	}
	if d.Available || d.Reason != want {
		t.Errorf("described as %+v", d)
	}
}
