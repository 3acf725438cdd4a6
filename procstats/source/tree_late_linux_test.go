// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestTreeFoundLate has a sample that misses a process: the next counts its time, and no rate has it.
func TestTreeFoundLate(t *testing.T) {
	pids := []int{play(t, "idle").Process.Pid, play(t, "busy").Process.Pid}
	known := pids[:1]
	tree := treeOf(t, Target{FS: kernel.HostFS(), Roots: func() []int { return known }})
	var before, s procstats.Sample
	burn(2 * procstats.StartTick) // of the test's own CPU time
	collect(&before, tree)
	checkNumber(t, &before, procstats.TreeCPULate, 0)
	known = pids
	burn(50 * time.Millisecond) // the shortest time of a rate is 20
	collect(&s, tree)
	if late := mustNumber(t, &s, procstats.TreeCPULate); late < 0.3 {
		t.Errorf("%v s were used before", late)
	}
	if rate, ok := s.Rate(&before, procstats.TreeCPU).Number(); !ok || rate > 0.5 {
		t.Errorf("%v CPUs were busy (%v), and all processes sleep", rate, ok)
	}
	late := mustNumber(t, &s, procstats.TreeCPULate)
	known = append(known, play(t, "busy").Process.Pid)
	collect(&before, tree)
	if now := mustNumber(t, &before, procstats.TreeCPULate); now > late+0.05 {
		t.Errorf("%v s of a process that began since", now-late)
	}
}

// TestLateCPU holds how much of a growth is from before the sample before.
func TestLateCPU(t *testing.T) {
	for _, test := range []struct {
		name               string
		grown, found, want time.Duration
	}{
		{"nothing is late", time.Second, 0, 0},
		{"found late", time.Second, 400 * time.Millisecond, 400 * time.Millisecond},
		{"found late, and counted before", time.Second, 5 * time.Second, time.Second},
		{"more than two CPUs can do", 5 * time.Second, 0, 3 * time.Second},
		{"both", 5 * time.Second, 4 * time.Second, 4 * time.Second},
	} {
		l := lateCPU{cpus: 2, readAt: time.Second, found: test.found}
		if l.count(procstats.Stamp{Mono: 2 * time.Second}, test.grown); l.total != test.want {
			t.Errorf("%s: %v, want %v", test.name, l.total, test.want)
		}
	}
}
