// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// fakeListing is a system of its own.
type fakeListing struct {
	processes []portableProcess
	usages    map[int]portableUsage
	errs      map[int]error
	err       error
	listings  int
}

func (f *fakeListing) list() ([]portableProcess, error) {
	f.listings++
	return f.processes, f.err
}

func (f *fakeListing) set(pid, parent int, created int64, cpu time.Duration, rss int64) {
	f.remove(pid)
	usage := func() (portableUsage, error) { return f.usages[pid], f.errs[pid] }
	f.processes = append(f.processes, portableProcess{pid: pid, parent: parent, created: created, usage: usage})
	f.usages[pid] = portableUsage{cpu: cpu, rss: rss, command: "sh"}
}

func (f *fakeListing) remove(pid int) {
	var left []portableProcess
	for _, p := range f.processes {
		if p.pid != pid {
			left = append(left, p)
		}
	}
	f.processes = left
}

func newFakeListing() *fakeListing {
	return &fakeListing{usages: make(map[int]portableUsage), errs: make(map[int]error)}
}

func portableOf(t Target, f *fakeListing) *portableSource {
	return newPortable(t, procstats.SourceSelection(procstats.SourcePortable), f.list)
}

func TestPortableFollowsTheTree(t *testing.T) {
	f := newFakeListing()
	var reaped Reaped
	var job JobTotals
	o := portableOf(Target{
		Roots: func() []int { return []int{10} }, Reaped: func() Reaped { return reaped }, Job: func() JobTotals { return job },
	}, f)
	steps := []struct {
		name           string
		change         func()
		pids           []int
		cpu, rss, live float64
	}{
		{"a child, a grandchild and a process of another task", func() {
			f.set(1, 0, 1, time.Hour, 1<<30)
			f.set(10, 1, 100, time.Second, 100)
			f.set(9, 10, 110, 2*time.Second, 10)
			f.set(12, 9, 120, 4*time.Second, 1)
		}, []int{9, 10, 12}, 7, 111, 3},
		{"the child ends, its child is init's", func() {
			f.remove(9)
			f.set(12, 1, 120, 5*time.Second, 1)
		}, []int{10, 12}, 8, 101, 2},
		{"another process has the PID of the child", func() { f.set(9, 1, 130, time.Hour, 1<<20) }, []int{10, 12}, 8, 101, 2},
		{"another process has the PID of the grandchild", func() { f.set(12, 1, 140, time.Hour, 1<<20) }, []int{10}, 8, 100, 1},
		{"one ends after it was listed", func() { f.errs[10] = syscall.ESRCH }, nil, 8, 0, 0},
		{"the executor has reaped it, with descendants that were never sampled", func() {
			f.remove(10)
			reaped.CPU = 9 * time.Second
		}, nil, 9, 0, 0},
		{"the Job Object has counted more", func() { job = JobTotals{CPU: 12 * time.Second, CommittedPeak: 77} }, nil, 12, 0, 0},
	}
	var s procstats.Sample
	for i, step := range steps {
		step.change()
		s.Reset()
		s.Stamp = kernel.Now()
		o.Collect(&s)
		var pids []int
		for _, row := range s.Processes {
			pids = append(pids, row.PID)
		}
		testkit.Diff(t, fmt.Sprintf("%s: PIDs", step.name), step.pids, pids)
		for id, want := range map[procstats.ID]float64{procstats.PortableCPU: step.cpu, procstats.PortableRSS: step.rss, procstats.PortableProcesses: step.live} {
			if got, ok := s.Task.Number(id); !ok || got != want {
				t.Errorf("%s: %s is %v (%v), want %v", step.name, id.String(), got, ok, want)
			}
		}
		if peak, ok := s.Task.Number(procstats.PortableCommittedPeak); ok != (job.CommittedPeak > 0) || int64(peak) != job.CommittedPeak {
			t.Errorf("%s: committed peak %v (%v)", step.name, peak, ok)
		}
		if f.listings != i+1 {
			t.Errorf("%s: %d listings in %d samples", step.name, f.listings, i+1)
		}
	}
}

func TestPortableStartsOnTheSampleClock(t *testing.T) {
	f := newFakeListing()
	now := procstats.Stamp{Mono: 100 * time.Second, Wall: time.UnixMilli(5_000_000)}
	f.set(10, 1, now.Wall.UnixMilli()-30_000, 0, 0)
	f.set(11, 10, now.Wall.UnixMilli()-200_000, 0, 0)
	o := portableOf(Target{Roots: func() []int { return []int{10} }}, f)
	o.now = func() procstats.Stamp { return now }
	var s procstats.Sample
	o.Collect(&s)
	for i, want := range []uint64{7000, 0} {
		testkit.Equal(t, s.Processes[i].Start, want, "process %d began at tick", s.Processes[i].PID)
	}
}

func TestPortableBoundsRows(t *testing.T) {
	f := newFakeListing()
	for pid := 10; pid < 20; pid++ {
		f.set(pid, 10, int64(pid), time.Duration(pid)*time.Second, 1)
	}
	seen := map[int]int64{}
	o := portableOf(Target{Roots: func() []int { return []int{10} }, MaxRows: 2, Seen: func(pid int, created int64) { seen[pid] = created }}, f)
	var s procstats.Sample
	o.Collect(&s)
	if len(seen) != 10 || seen[12] != 12 {
		t.Errorf("seen %v: want all, also without a row", seen)
	}
	if len(s.Processes) != 2 || s.Processes[0].PID != 18 || s.Processes[1].PID != 19 || s.Omitted != 8 {
		t.Errorf("%d omitted of %+v", s.Omitted, s.Processes)
	}
}

func TestPortableThatCannotBeRead(t *testing.T) {
	forbidden := newFakeListing()
	forbidden.set(10, 1, 1, time.Second, 1)
	forbidden.set(11, 10, 2, time.Second, 1)
	forbidden.errs[11] = errors.New("process 11: CPU times: not permitted")
	broken := newFakeListing()
	broken.err = errors.New("list processes: broken")
	roots := func() []int { return []int{10} }
	tests := []struct {
		name, reason string
		target       Target
		listing      *fakeListing
		available    bool
		present      int
	}{
		{"no root", reasonNoRoots, Target{}, newFakeListing(), false, 0},
		{"no listing", "broken", Target{Roots: roots}, broken, true, 0},
		{"one of two", "processes cannot be read: process 11", Target{Roots: roots}, forbidden, true, 1},
	}
	for _, test := range tests {
		o := portableOf(test.target, test.listing)
		if d := o.Describe(); d.Available != test.available || d.ID != procstats.SourcePortable {
			t.Errorf("%s: %+v", test.name, d)
		}
		var s procstats.Sample
		o.Collect(&s)
		present := 0
		for _, r := range s.Task {
			if r.Present() {
				present++
			} else if !strings.Contains(r.Reason(), test.reason) && r.Reason() != reasonNoJob {
				t.Errorf("%s: %+v", test.name, r)
			}
		}
		if present != test.present || len(s.Task) != 4 {
			t.Errorf("%s: %v", test.name, s.Task)
		}
		for _, row := range s.Processes {
			if cpu, _ := row.Readings.Get(procstats.PortableProcessCPU); cpu.Present() != (row.PID == 10) {
				t.Errorf("%s: %+v", test.name, row)
			}
		}
		noError(t, o.Close())
	}
}
