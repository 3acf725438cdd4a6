// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/procstats"
)

// at is a sample whose sources were all read at a moment after boot.
func at(moment time.Duration, numbers map[procstats.ID]float64, processes ...procstats.ProcessRow) *procstats.Sample {
	stamp := procstats.Stamp{Mono: moment, Wall: time.Unix(1000, 0).Add(moment)}
	s := &procstats.Sample{Stamp: stamp, Processes: processes}
	for source := range s.Sources {
		s.Sources[source] = stamp
	}
	for id, number := range numbers {
		s.SetNumber(id, number)
	}
	return s
}

func process(pid int, start uint64, cpu, rss float64) procstats.ProcessRow {
	row := procstats.ProcessRow{ProcessID: procstats.ProcessID{PID: pid, Start: start}}
	row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, cpu))
	row.Readings.Put(procstats.NumberReading(procstats.ProcessRSS, rss))
	return row
}

func TestMeter(t *testing.T) {
	m := &meter{id: "t", coreMHz: 2000, maxRows: 10}
	first := m.stats(at(10*time.Second, map[procstats.ID]float64{
		procstats.CgroupCPUUsage: 5, procstats.CgroupCPUUser: 3, procstats.CgroupMemoryAnon: 100,
	}, process(7, 1, 4, 64)))
	want := &TaskStats{
		ID: "t", Timestamp: time.Unix(1010, 0), Sample: first.Sample,
		Aggregate: ResourceUsage{Memory: MemoryUsage{RSS: 100, Measured: []MemoryField{MemoryRSS}}},
		ByPID:     map[string]ResourceUsage{"7": {Memory: MemoryUsage{RSS: 64, Measured: []MemoryField{MemoryRSS}}}},
	}
	diff := func(name string, want, got *TaskStats) {
		t.Helper()
		want.Sample, got.Sample = nil, nil
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	diff("first reading, no rate", want, first)

	second := m.stats(at(12*time.Second, map[procstats.ID]float64{
		procstats.CgroupCPUUsage: 8, procstats.CgroupCPUUser: 4, procstats.CgroupCPUSystem: 1,
		procstats.CgroupCPUThrottledPeriods: 6, procstats.CgroupCPUThrottled: 1.5,
		procstats.CgroupMemoryAnon: 100, procstats.CgroupMemoryFile: 50, procstats.CgroupMemoryCurrent: 160,
		procstats.CgroupMemoryPeak: 200, procstats.CgroupMemoryKernel: 10,
	}, process(7, 1, 5, 64), process(8, 1101, 0.5, 32), process(9, 3, 100, 16)))
	rss := []MemoryField{MemoryRSS}
	cpu := []CPUField{CPUTotalTicks, CPUPercent}
	diff("second reading", &TaskStats{
		ID: "t", Timestamp: time.Unix(1012, 0),
		Aggregate: ResourceUsage{
			// 3 CPU seconds in 2 seconds; the system mode's counter is new and so has no rate.
			CPU: CPUUsage{
				Percent: 150, TotalTicks: 3000, User: 50, ThrottledPeriods: 6, ThrottledTime: 1500 * time.Millisecond,
				Measured: []CPUField{CPUUser, CPUTotalTicks, CPUThrottledPeriods, CPUThrottledTime, CPUPercent},
			},
			Memory: MemoryUsage{RSS: 100, Cache: 50, MaxUsage: 200, KernelUsage: 10, Usage: 160, Measured: []MemoryField{
				MemoryRSS, MemoryCache, MemoryMaxUsage, MemoryKernelUsage, MemoryUsageNow,
			}},
		},
		ByPID: map[string]ResourceUsage{
			"7": {CPU: CPUUsage{Percent: 50, TotalTicks: 1000, Measured: cpu}, Memory: MemoryUsage{RSS: 64, Measured: rss}},
			// Began after the first reading: all of its time is of the window.
			"8": {CPU: CPUUsage{Percent: 25, TotalTicks: 500, Measured: cpu}, Memory: MemoryUsage{RSS: 32, Measured: rss}},
			// Is older, so it was moved into the task, and what it used before is not the task's.
			"9": {Memory: MemoryUsage{RSS: 16, Measured: rss}},
		},
	}, second)

	third := m.stats(at(13*time.Second, map[procstats.ID]float64{procstats.CgroupCPUUsage: 1}))
	if third.Aggregate.CPU.Has(CPUPercent) || third.Aggregate.CPU.Percent != 0 {
		t.Errorf("a counter that went down gives a rate: %+v", third.Aggregate.CPU)
	}
}

// A PID that is used again is another process.
func TestMeterReusedPID(t *testing.T) {
	m := &meter{maxRows: 10}
	m.stats(at(10*time.Second, nil, process(7, 1, 50, 1)))
	stats := m.stats(at(11*time.Second, nil, process(7, 1050, 0.25, 1)))
	if got := stats.ByPID["7"].CPU.Percent; got != 25 {
		t.Errorf("%f %%, want 25", got)
	}
}

func TestMeterBoundsRows(t *testing.T) {
	m := &meter{maxRows: 2}
	m.stats(at(10*time.Second, nil, process(1, 1, 0, 1), process(2, 1, 0, 9), process(3, 1, 0, 5)))
	stats := m.stats(at(11*time.Second, nil, process(1, 1, 0.5, 1), process(2, 1, 0, 9), process(3, 1, 0, 5)))
	var pids []string
	for pid := range stats.ByPID {
		pids = append(pids, pid)
	}
	if len(stats.ByPID) != 2 || stats.ByPID["1"].Memory.RSS != 1 || stats.ByPID["2"].Memory.RSS != 9 {
		t.Errorf("rows of %v, want the busiest and the largest", pids)
	}
	m.maxRows = 0
	if stats := m.stats(at(12*time.Second, nil, process(1, 1, 1, 1))); stats.ByPID != nil {
		t.Errorf("rows %v where none are wanted", stats.ByPID)
	}
}

func TestMeterWithoutCgroup(t *testing.T) {
	m := &meter{}
	m.stats(at(10*time.Second, map[procstats.ID]float64{procstats.TreeCPU: 1}))
	stats := m.stats(at(11*time.Second, map[procstats.ID]float64{procstats.TreeCPU: 1.5, procstats.TreeRSS: 7}))
	cpu, memory := stats.Aggregate.CPU, stats.Aggregate.Memory
	if cpu.Percent != 50 || cpu.Has(CPUTotalTicks) || cpu.Has(CPUUser) || memory.RSS != 7 || memory.Has(MemoryUsageNow) {
		t.Errorf("usage %+v %+v", cpu, memory)
	}
}

func TestParseCPUInfo(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       float64
		fails      bool
	}{
		{"two cores", "processor\t: 0\ncpu MHz\t\t: 2000.5\nflags\t\t: fpu\nprocessor\t: 1\ncpu MHz\t\t: 2999.5\n", 2500, false},
		{"ARM says nothing", "processor\t: 0\nBogoMIPS\t: 38.40\n", 0, true},
		{"no number", "cpu MHz : fast\n", 0, true},
		{"zero", "cpu MHz : 0.000\n", 0, true},
		{"empty", "", 0, true},
	} {
		got, err := parseCPUInfo(test.text)
		if (err != nil) != test.fails || got != test.want {
			t.Errorf("%s: %f, %v; want %f", test.name, got, err, test.want)
		}
	}
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add("cpu MHz\t\t: 2000.5\n")
	f.Add("cpu MHz : NaN\n")
	f.Add("cpu MHz : 1e300\n")
	f.Fuzz(func(t *testing.T, text string) {
		if mhz, err := parseCPUInfo(text); err == nil && !(mhz > 0 && mhz <= 1e6) {
			t.Errorf("%f MHz of %q", mhz, text)
		}
	})
}

func TestCoreMHz(t *testing.T) {
	for _, test := range []struct {
		name     string
		topology *Topology
		want     float64
		ok       bool
	}{
		{"none", nil, 0, false},
		{"no cores", &Topology{}, 0, false},
		{"base, highest, guessed", &Topology{Cores: []Core{
			{BaseSpeed: 1000, MaxSpeed: 5000}, {MaxSpeed: 2000, GuessedSpeed: 9}, {GuessedSpeed: 3000},
		}}, 2000, true},
		{"one not known", &Topology{Cores: []Core{{BaseSpeed: 1000}, {}}}, 0, false},
		{"the operator's word", &Topology{Cores: []Core{{}, {}}, OverrideTotalCompute: 5000}, 2500, true},
	} {
		if got, ok := test.topology.CoreMHz(); got != test.want || ok != test.ok {
			t.Errorf("%s: %f, %t; want %f, %t", test.name, got, ok, test.want, test.ok)
		}
	}
}
