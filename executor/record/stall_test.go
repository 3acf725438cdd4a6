// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestStallOf(t *testing.T) {
	s := func(seconds float64) *float64 { return &seconds }
	// waits over 100 seconds, so that seconds are percent.
	waits := func(cpu, throttled, cpuSome, memorySome, ioSome float64) Waits {
		return Waits{
			Wall: 100 * time.Second, CPU: s(cpu), Throttled: s(throttled), CPUSome: s(cpuSome),
			MemorySome: s(memorySome), IOSome: s(ioSome),
		}
	}
	without := func(w Waits, change func(*Waits)) Waits { change(&w); return w }
	tests := []struct {
		name string
		w    Waits
		want Stall
	}{
		{"sleeps", waits(0.1, 0, 0.1, 0, 0), Idle},
		{"works and waits for nothing", waits(99, 0, 1, 0, 0), Fine},
		{"works on many cores", waits(800, 0, 9, 0, 0), Fine},
		{"works a little", waits(5, 0, 0, 0, 0), Fine},
		{"waits a little for storage", waits(1, 0, 0, 0, 6), Fine},
		{"shares its CPU with another", waits(50, 0, 50, 0, 0), CPUStarved},
		{"a tenth of the time is enough", waits(90, 0, 10, 0, 0), CPUStarved},
		{"half a core by quota", waits(50, 50, 50, 0, 0), CPUThrottled},
		{"throttled in bursts only", waits(5, 11, 11, 0, 0), CPUThrottled},
		{"four cores held back at once cost the time once", waits(360, 40, 10, 0, 0), CPUThrottled},
		{"four cores held back a little", waits(396, 16, 4, 0, 0), Fine},
		{"throttled and starved, more of the second", waits(30, 20, 70, 0, 0), CPUStarved},
		{"throttled and starved, more of the first", waits(30, 40, 60, 0, 0), CPUThrottled},
		{"half a core by the quota above", without(waits(50, 0, 50, 0, 0), func(w *Waits) { w.AncestorThrottled = s(50) }), CPUThrottled},
		{"others below the same quota are held back", without(waits(1, 0, 0.5, 0, 0), func(w *Waits) { w.AncestorThrottled = s(90) }), Idle},
		{"a little by the quota above, more by others", without(waits(30, 0, 70, 0, 0), func(w *Waits) { w.AncestorThrottled = s(20) }), CPUStarved},
		{"the quota above, no pressure", Waits{Wall: 100 * time.Second, CPU: s(50), AncestorThrottled: s(50)}, CPUThrottled},
		{"reads from storage", waits(20, 0, 2, 0, 80), IOBound},
		{"reads back what was reclaimed", waits(20, 0, 2, 75, 80), MemoryThrashing},
		{"half of its I/O is memory's", waits(20, 0, 2, 8, 16), MemoryThrashing},
		{"a little of its I/O is memory's", waits(20, 0, 2, 3, 16), IOBound},
		{"reclaims", waits(60, 0, 5, 40, 0), MemoryThrashing},
		{"the largest wait has the word", waits(20, 0, 60, 0, 40), CPUStarved},
		{"equal waits: memory, storage, quota, CPU", waits(20, 0, 40, 0, 40), IOBound},
		{"no pressure, throttled", Waits{Wall: 100 * time.Second, CPU: s(50), Throttled: s(50)}, CPUThrottled},
		{"no pressure, not throttled", Waits{Wall: 100 * time.Second, CPU: s(50), Throttled: s(0)}, ""},
		{"no pressure of storage, sleeps", without(waits(0, 0, 0, 0, 0), func(w *Waits) { w.IOSome = nil }), ""},
		{"no pressure of storage, starved", without(waits(50, 0, 50, 0, 0), func(w *Waits) { w.IOSome = nil }), CPUStarved},
		{"CPU time not known, no waits", without(waits(0, 0, 0, 0, 0), func(w *Waits) { w.CPU = nil }), Fine},
		{"processes left", Waits{Wall: 100 * time.Second, CPU: s(0), CPUSome: s(0), MemorySome: s(0), IOSome: s(0), Left: s(1)}, ""},
		{"processes left, and others wait", Waits{Wall: 100 * time.Second, CPU: s(0), CPUSome: s(0), MemorySome: s(0), IOSome: s(20), Left: s(1)}, IOBound},
		{"no time", Waits{CPU: s(0), CPUSome: s(0), MemorySome: s(0), IOSome: s(0)}, ""},
		{"nothing known", Waits{Wall: time.Second}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			testkit.Equal(t, StallOf(test.w), test.want, "result")
		})
	}
}

// TestThrottledBy names the cgroup above only where its quota cost more than the task's own.
func TestThrottledBy(t *testing.T) {
	sample := func(at time.Duration, own, above float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(0, int64(at))}}
		s.SetRead(procstats.SourceCgroup, s.Stamp)
		s.SetNumber(procstats.CgroupCPUUsage, at.Seconds()/10)
		s.SetNumber(procstats.CgroupCPUThrottled, own)
		s.SetNumber(procstats.CgroupCPUAncestorThrottled, above)
		return s
	}
	tests := []struct {
		own, above float64
		want       string
	}{
		{0, 5, "cpu-throttled by /batch"},
		{5, 0, "cpu-throttled"},
		{5, 4, "cpu-throttled"},
		{4, 5, "cpu-throttled by /batch"},
		{0, 0, ""},
	}
	for _, test := range tests {
		d := Diagnose(Evidence{
			Before: sample(0, 0, 0), After: sample(10*time.Second, test.own, test.above), Wall: 10 * time.Second, Span: 10 * time.Second,
			Throttler: "/batch",
		})
		testkit.Equal(t, d.StallText(), test.want, "%v s by its own quota and %v s by one above", test.own, test.above)
		testkit.Equal(t, d.redacted().ThrottledBy, "", "redacted")
	}
}

func TestWaits(t *testing.T) {
	sample := func(at time.Duration, cpu, some float64) *procstats.Sample {
		s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(0, int64(at))}}
		s.SetRead(procstats.SourceCgroup, s.Stamp)
		s.SetRead(procstats.SourcePSI, s.Stamp)
		s.SetNumber(procstats.CgroupCPUUsage, cpu)
		s.SetNumber(procstats.PSICPUSome, some)
		s.SetAbsent(procstats.PSIIOSome, "no PSI")
		return s
	}
	first, last := sample(10*time.Second, 3, 1), sample(20*time.Second, 8, 6)
	five := 5.0
	want := Waits{Wall: 10 * time.Second, CPU: &five, CPUSome: &five}
	testkit.Diff(t, "between two samples", want, WaitsBetween(first, last, 10*time.Second))
	testkit.Diff(t, "without a baseline", Waits{Wall: time.Second}, WaitsBetween(nil, last, time.Second))
	// What is reaped or walked has no counter before the task has started.
	late := sample(20*time.Second, 8, 6)
	late.SetAbsent(procstats.CgroupCPUUsage, "no cgroup")
	late.SetNumber(procstats.TreeCPU, 2)
	two := 2.0
	if got := WaitsBetween(first, late, time.Second).CPU; got == nil || *got != two {
		t.Errorf("CPU time of a tree: %v, want 2", got)
	}
	restarted := sample(20*time.Second, 1, 6)
	if got := WaitsBetween(first, restarted, time.Second).CPU; got != nil {
		t.Errorf("a counter that went down: %v, want none", *got)
	}
}

// TestStallOfOutliving holds that pressure in the time of processes which outlived the main one is a share of their
// time.
func TestStallOfOutliving(t *testing.T) {
	before, after := &procstats.Sample{}, &procstats.Sample{Stamp: procstats.Stamp{Mono: 10 * time.Second}}
	for _, id := range []procstats.ID{procstats.PSICPUSome, procstats.PSIMemorySome, procstats.PSIIOSome, procstats.CgroupCPUUsage} {
		before.SetNumber(id, 0)
		after.SetNumber(id, 0)
	}
	after.SetNumber(procstats.CgroupCPUUsage, 9)
	after.SetNumber(procstats.PSICPUSome, 0.5)
	d := Diagnose(Evidence{Before: before, After: after, Wall: time.Millisecond, Span: 10 * time.Second})
	testkit.Equal(t, d.Stall, Fine, "half a second of ten")
}
