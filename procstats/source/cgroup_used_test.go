// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// usedGroup are files of a v2 group that had a task before, and the same after some of another.
func usedGroup() (before, after map[string]string) {
	before = map[string]string{
		"cpu.stat":        "usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\n",
		"memory.current":  "4096\n",
		"memory.max":      "max\n",
		"memory.stat":     "anon 4096\npgfault 700\n",
		"memory.events":   "low 0\nhigh 3\nmax 9\noom 2\noom_kill 2\n",
		"io.stat":         "8:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n",
		"cpu.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"memory.pressure": "", // cannot be read
	}
	after = map[string]string{
		// The throttling comes with a controller that was enabled only then.
		"cpu.stat":        "usage_usec 5250000\nuser_usec 4200000\nsystem_usec 1050000\nthrottled_usec 125000\n",
		"memory.current":  "8192\n",
		"memory.max":      "65536\n",
		"memory.stat":     "anon 8192\npgfault 710\n",
		"memory.events":   "low 0\nhigh 3\nmax 10\noom 3\noom_kill 2\n",
		"io.stat":         "8:0 rbytes=160 wbytes=200 rios=2 wios=2 dbytes=0 dios=0\n8:16 rbytes=40 wbytes=5 rios=1 wios=1 dbytes=0 dios=0\n",
		"cpu.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=3500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=9000000\n",
	}
	return before, after
}

// numbersOf collects once and returns what is present, by ID.
func numbersOf(sources ...Source) map[procstats.ID]float64 {
	var s procstats.Sample
	for _, source := range sources {
		source.Collect(&s)
	}
	numbers := map[procstats.ID]float64{}
	for _, r := range s.Task {
		if number, ok := r.Number(); ok {
			numbers[r.ID()] = number
		}
	}
	return numbers
}

// TestUsedGroup holds that of a group which had tasks before only the growth is the task's; gauges and limits are as
// they are.
func TestUsedGroup(t *testing.T) {
	const (
		usage, user, system, throttled = procstats.CgroupCPUUsage, procstats.CgroupCPUUser, procstats.CgroupCPUSystem, procstats.CgroupCPUThrottled
		current, anon, limit, faults   = procstats.CgroupMemoryCurrent, procstats.CgroupMemoryAnon, procstats.CgroupMemoryMax, procstats.CgroupMemoryPgfault
		high, hit, oom, kills          = procstats.CgroupMemoryEventsHigh, procstats.CgroupMemoryEventsMax, procstats.CgroupMemoryEventsOOM, procstats.CgroupMemoryEventsOOMKill
		read, written                  = procstats.CgroupIORead, procstats.CgroupIOWrite
		stalled, memoryStalled         = procstats.PSICPUSome, procstats.PSIMemorySome
	)
	before, after := usedGroup()
	dir := t.TempDir()
	writeFiles(t, dir, before)
	target := Target{FS: kernel.FS{Proc: t.TempDir()}, Cgroup: procstats.Cgroup{V2: dir}, Used: true}
	selection := procstats.Select(usage, user, system, throttled, current, anon, limit, faults, high, hit, oom, kills, read, written,
		stalled, memoryStalled)
	pressure := filepath.Join(dir, "memory.pressure") // a folder: it opens, and cannot be read
	must(t, errors.Join(os.Remove(pressure), os.Mkdir(pressure, 0o700)))
	group := openCgroup(target, selection)
	sources := []Source{group, openPSI(target, selection)}
	must(t, os.Remove(pressure))
	defer func() {
		for _, source := range sources {
			noError(t, source.Close())
		}
	}()
	want := map[procstats.ID]float64{}
	for _, step := range []struct {
		name  string
		files map[string]string
		want  map[procstats.ID]float64
	}{
		{"at the start", nil, map[procstats.ID]float64{
			usage: 0, user: 0, system: 0, current: 4096, anon: 4096, faults: 0, high: 0, hit: 0, oom: 0, kills: 0, read: 0, written: 0, stalled: 0,
		}},
		{"after some of the task", after, map[procstats.ID]float64{
			usage: 0.25, user: 0.2, system: 0.05, throttled: 0.125, current: 8192, anon: 8192, limit: 65536, faults: 10,
			high: 0, hit: 1, oom: 1, kills: 0, read: 100, written: 5, stalled: 0.5,
		}},
		{
			"set back",
			map[string]string{"cpu.stat": "usage_usec 1000000\nuser_usec 500000\nsystem_usec 500000\nthrottled_usec 0\n"},
			map[procstats.ID]float64{usage: 0, user: 0, system: 0, throttled: 0},
		},
		{
			"after that",
			map[string]string{"cpu.stat": "usage_usec 1500000\nuser_usec 750000\nsystem_usec 750000\nthrottled_usec 0\n"},
			map[procstats.ID]float64{usage: 0.5, user: 0.25, system: 0.25, throttled: 0},
		},
	} {
		writeFiles(t, dir, step.files)
		maps.Copy(want, step.want) // the rest is as before
		testkit.Diff(t, step.name, want, numbersOf(sources...))
	}
	began, gone := map[procstats.ID]float64{}, map[procstats.ID]float64{}
	group.addBefore(began)
	must(t, os.RemoveAll(dir))
	numbersOf(sources...) // which closes the files
	group.addBefore(gone)
	testkit.Equal(t, began[usage] > 0, true, "something was used before")
	testkit.Diff(t, "what was used before, once the group is gone", began[usage], gone[usage])
}
