// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package exits

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// one is a process with a single thread.
func one(pid uint32, command string, status uint32) thread {
	return thread{
		process: process{pid: pid, start: uint64(pid)}, first: true, command: command, status: status, whole: true, ended: true,
		use: use{cpu: time.Millisecond},
	}
}

// threadOf is one of several threads of a process.
func threadOf(pid uint32, first, ended bool) thread {
	t := one(pid, "threads", 0)
	t.first, t.ended, t.others, t.whole = first, ended, true, first
	return t
}

// Processes are counted once, with all their threads, in whatever order these end and are reported, and also if one of
// them is not counted as one that has begun to end before all others are settled.
func TestTallyThreads(t *testing.T) {
	killed := threadOf(7, false, true)
	killed.status, killed.whole = 9, true
	for name, test := range map[string]struct {
		threads           []thread
		processes, failed int64
		cpu               time.Duration
	}{
		"leader last":           {[]thread{threadOf(7, false, false), threadOf(7, false, false), threadOf(7, true, true)}, 1, 0, 3 * time.Millisecond},
		"leader first":          {[]thread{threadOf(7, true, false), threadOf(7, false, false), killed}, 1, 1, 3 * time.Millisecond},
		"all at once":           {[]thread{threadOf(7, true, true), threadOf(7, false, true), threadOf(7, false, true)}, 1, 0, 3 * time.Millisecond},
		"threads of a live one": {[]thread{threadOf(7, false, false), threadOf(7, false, false)}, 0, 0, 0},
		"a number that is used again": {[]thread{one(7, "threads", 0), func() thread {
			again := one(7, "threads", 1<<8)
			again.process.start = 99
			return again
		}()}, 2, 1, 2 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			y := newTally(procstats.Exact, 4096)
			for i, thread := range test.threads {
				thread.last = thread.ended && i == len(test.threads)-1
				y.add(thread)
				y.settle()
				y.settle()
			}
			for range 2 {
				var got procstats.Command
				for _, c := range y.list() {
					got = c
				}
				if y.ended != test.processes || got.Processes != test.processes || got.Failed != test.failed || got.CPUSeconds != test.cpu.Seconds() {
					t.Errorf("%d processes, %d failed, %v s; want %d, %d, %v", got.Processes, got.Failed, got.CPUSeconds, test.processes, test.failed, test.cpu)
				}
				y.settle()
			}
		})
	}
}

// What a process had used before it was watched does not count, also as long as it has threads that are not reported.
func TestTallyEarlier(t *testing.T) {
	y := newTally(procstats.Exact, 4096)
	y.earlier[7] = use{cpu: 2 * time.Millisecond, read: 100, written: 10}
	first, second := threadOf(7, true, false), threadOf(7, false, true)
	first.maxRSS = 4096
	second.use = use{
		cpu: 4 * time.Millisecond, delay: time.Hour, read: 101, written: 12, minorFaults: 1, majorFaults: 1, voluntary: 1, involuntary: 1,
	}
	y.add(first)
	y.add(second)
	want := procstats.Command{
		Name: "threads", Processes: 1, CPUSeconds: 0.003, ReadBytes: new(int64(1)), WrittenBytes: new(int64(2)),
		PeakRSSBytes: 4096, PeakRSSGuarantee: procstats.UpperBound,
	}
	for _, when := range []string{"one thread is not reported", "again", "all are"} {
		if when == "all are" {
			y.finish()
		}
		if list := y.list(); len(list) != 1 || !cmp.Equal(list[0], want) {
			t.Errorf("%s: %s", when, cmp.Diff([]procstats.Command{want}, list))
		}
	}
}

// When nothing is left of a task, a process of which the last record was lost has ended too.
func TestTallyFinish(t *testing.T) {
	y := newTally(procstats.Exact, 4096)
	y.add(threadOf(7, false, false))
	y.finish()
	if list := y.list(); len(list) != 1 || list[0].Processes != 1 {
		t.Errorf("got %+v", list)
	}
}

// However many names there are, memory is bounded and every process is counted.
func TestTallyBounds(t *testing.T) {
	y := newTally(procstats.Exact, 4096)
	const names = mostCommands + 500
	for i := range uint32(names) {
		y.add(one(i+1, fmt.Sprintf("name%d", i), 0))
	}
	for i := range uint32(mostStatuses + 5) {
		y.add(one(names+i+1, "name0", (i+1)<<8))
	}
	var processes int64
	for _, c := range y.list() {
		processes += c.Processes
		if c.Name == "name0" && (c.Failed != mostStatuses+5 || len(c.Failures) != mostStatuses) {
			t.Errorf("%d failed in %d ways", c.Failed, len(c.Failures))
		}
	}
	if len(y.commands) != mostCommands+1 || processes != names+mostStatuses+5 {
		t.Errorf("%d names, %d processes", len(y.commands), processes)
	}
	for i := range uint32(mostOpen + 1) {
		y.add(threadOf(i+1, false, false))
	}
	if len(y.open) > mostOpen {
		t.Errorf("%d open processes", len(y.open))
	}
}

// A process without a name is not the sum of others, whose name is empty.
func TestNoName(t *testing.T) {
	unnamed, ok := decode(make([]byte, recordSize), 4096)
	if !ok {
		t.Fatal("a record is not decoded")
	}
	y := newTally(procstats.Exact, 4096)
	y.add(unnamed)
	y.finish()
	if list := y.list(); len(list) != 1 || list[0].Name == "" || list[0].Processes != 1 {
		t.Errorf("got %+v", list)
	}
}

// A peak is exact if it is above what the process has inherited, and above what the others can have had.
func TestTallyPeak(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		peaks [][2]int64 // the largest resident set, and what of it was there at the exec
		want  int64
		bound bool
	}{
		"own":                       {[][2]int64{{10 * mib, 2 * mib}}, 10 * mib, false},
		"no exec":                   {[][2]int64{{10 * mib, 0}}, 10 * mib, false},
		"inherited":                 {[][2]int64{{24 * mib, 24 * mib}}, 24 * mib, true},
		"own and a small inherited": {[][2]int64{{10 * mib, 2 * mib}, {3 * mib, 3 * mib}}, 10 * mib, false},
		"own and a large inherited": {[][2]int64{{10 * mib, 2 * mib}, {24 * mib, 24 * mib}}, 24 * mib, true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newTally(procstats.Exact, 4096)
			for i, peak := range test.peaks {
				p := one(uint32(i+1), "x", 0) //nolint:gosec // few
				p.maxRSS, p.inherited = peak[0], peak[1]
				y.add(p)
			}
			if c := y.list()[0]; c.PeakRSSBytes != test.want || (c.PeakRSSGuarantee == procstats.UpperBound) != test.bound {
				t.Errorf("%d, %s; want %d, %v", c.PeakRSSBytes, c.PeakRSSGuarantee, test.want, test.bound)
			}
		})
	}
}

// What a process had mapped is what its page faults cannot have brought: of all its threads, and only of one whose peak
// is that of a program it executed.
func TestTallyMapped(t *testing.T) {
	const page = 4096
	with := func(pages, inherited, faults int64, threads ...thread) []thread {
		threads[0].maxRSS, threads[0].inherited = pages*page, inherited*page
		threads[0].use.minorFaults, threads[0].use.majorFaults = faults-1, 1
		return threads
	}
	other := threadOf(7, false, false)
	other.use.minorFaults = 300
	for name, test := range map[string]struct {
		threads []thread
		touched int64
		want    int64
	}{
		"mapped":                       {with(1000, 1, 100, one(1, "x", 0)), page, 900},
		"touched":                      {with(1000, 1, 1000, one(1, "x", 0)), page, 0},
		"touched time and again":       {with(1000, 1, 5000, one(1, "x", 0)), page, 0},
		"forked":                       {with(1000, 0, 100, one(1, "x", 0)), page, 0},
		"peak of the parent":           {with(1000, 1000, 100, one(1, "x", 0)), page, 0},
		"huge pages":                   {with(1000, 1, 100, one(1, "x", 0)), 0, 0},
		"touched by two threads":       {with(1000, 1, 100, threadOf(7, true, true), other), page, 600},
		"the most of several":          {append(with(1000, 1, 100, one(1, "x", 0)), with(700, 1, 100, one(2, "x", 0))...), page, 900},
		"not less for another's touch": {append(with(1000, 1, 100, one(1, "x", 0)), with(700, 1, 9000, one(2, "x", 0))...), page, 900},
	} {
		t.Run(name, func(t *testing.T) {
			y := newTally(procstats.Exact, test.touched)
			for _, thread := range test.threads {
				y.add(thread)
			}
			for range 2 {
				if c := y.list()[0]; c.MappedBytes != test.want*page {
					t.Errorf("%d pages, want %d", c.MappedBytes/page, test.want)
				}
				y.finish()
			}
		})
	}
}
