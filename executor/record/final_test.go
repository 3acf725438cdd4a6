// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestProcessesOfHaveCommandLines holds that the record has the command line of each process, and its redacted copy
// none.
func TestProcessesOfHaveCommandLines(t *testing.T) {
	var w procstats.Window
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Second, Wall: time.Unix(1000, 0)}}
	s.SetRead(procstats.SourceTree, s.Stamp)
	row := s.AddProcess(procstats.ProcessID{PID: 7})
	row.Command = "bash"
	row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, 2))
	row.Readings.Put(procstats.TextReading(procstats.ProcessCmdline, "bash secret"))
	w.Add(s)
	r := &Record{Processes: ProcessesOf(&w, s, true, nil)}
	r.Peak = &Peak{Largest: r.Processes.Rows}
	whole := []ProcessRow{{PID: 7, Command: "bash", Measurements: map[string]any{"process_cpu_seconds_total": 2.0, "process_cmdline": "bash secret"}}}
	numbers := []ProcessRow{{PID: 7, Command: "bash", Measurements: map[string]any{"process_cpu_seconds_total": 2.0}}}
	redacted := r.Redacted()
	for _, diff := range []string{
		cmp.Diff(numbers, redacted.Processes.Rows), cmp.Diff(numbers, redacted.Peak.Largest),
		cmp.Diff(whole, r.Processes.Rows), cmp.Diff(whole, r.Peak.Largest),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
}

// TestProcessesOfTallyStates holds that a row counts the samples in which each state was seen, and that a process whose
// state was not read has none.
func TestProcessesOfTallyStates(t *testing.T) {
	var w procstats.Window
	var last *procstats.Sample
	for n, states := range [][2]string{{"R", ""}, {"S", ""}, {"S", ""}, {"D", ""}, {"", ""}} {
		at := time.Duration(n+1) * time.Second
		last = &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(1000, 0).Add(at)}}
		last.SetRead(procstats.SourceTree, last.Stamp)
		for pid, state := range states {
			row := last.AddProcess(procstats.ProcessID{PID: pid + 1})
			row.Readings.Put(procstats.NumberReading(procstats.ProcessCPU, float64(n)))
			if state != "" {
				row.Readings.Put(procstats.TextReading(procstats.ProcessState, state))
			}
		}
		w.Add(last)
	}
	var got []map[string]int64
	for _, row := range ProcessesOf(&w, last, true, nil).Rows {
		got = append(got, row.States)
	}
	testkit.Diff(t, "result", []map[string]int64{{"D": 1, "R": 1, "S": 2}, nil}, got)
}

// TestMergeFinalLosesNoCount merges what two readers of a task have counted: neither has seen all that the other has.
func TestMergeFinalLosesNoCount(t *testing.T) {
	sample := func(number float64, ids ...procstats.ID) *procstats.Sample {
		s := &procstats.Sample{}
		for _, id := range ids {
			s.SetNumber(id, number)
		}
		return s
	}
	absent := &procstats.Sample{}
	absent.SetAbsent(procstats.CgroupCPUUsage, "removed")
	tests := map[string]struct {
		final, last *procstats.Sample
		id          procstats.ID
		want        float64
		present     bool
	}{
		"a process that left": {sample(0, procstats.TreeLeftMemory), sample(2, procstats.TreeLeftMemory), procstats.TreeLeftMemory, 2, true},
		"the last CPU time":   {sample(3, procstats.CgroupCPUUsage), sample(2, procstats.CgroupCPUUsage), procstats.CgroupCPUUsage, 3, true},
		"read a moment later": {sample(3, procstats.CgroupCPUUsage), sample(4, procstats.CgroupCPUUsage), procstats.CgroupCPUUsage, 4, true},
		"a gauge":             {sample(3, procstats.CgroupMemoryCurrent), sample(2, procstats.CgroupMemoryCurrent), procstats.CgroupMemoryCurrent, 2, true},
		"a peak":              {sample(3, procstats.CgroupMemoryPeak), sample(4, procstats.CgroupMemoryPeak), procstats.CgroupMemoryPeak, 3, true},
		"not in the final":    {sample(3), sample(2, procstats.TreeJoined), procstats.TreeJoined, 2, true},
		"not the last one":    {absent, sample(2, procstats.CgroupCPUUsage), procstats.CgroupCPUUsage, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := MergeFinal(test.final, test.last).Task.Number(test.id); got != test.want || ok != test.present {
				t.Errorf("%v, present %v, want %v, %v", got, ok, test.want, test.present)
			}
		})
	}
}

func TestInheritedPeak(t *testing.T) {
	sample := func(peak float64) *procstats.Sample {
		s := &procstats.Sample{}
		s.SetNumber(procstats.CgroupMemoryPeak, peak)
		return s
	}
	for _, test := range []struct {
		name          string
		before, after *procstats.Sample
		source        procstats.ID
		want          procstats.Guarantee
	}{
		{"rose in the run", sample(100), sample(200), procstats.CgroupMemoryPeak, procstats.Exact},
		{"stayed", sample(200), sample(200), procstats.CgroupMemoryPeak, procstats.UpperBound},
		{"not the kernel's", sample(200), sample(200), procstats.TreeRSS, procstats.Exact},
		{"not read before", nil, sample(200), procstats.CgroupMemoryPeak, procstats.Exact},
	} {
		headline := map[string]HeadlineValue{
			"memory_peak_bytes": {Value: new(200.0), Source: test.source.String(), Guarantee: procstats.Exact},
		}
		reason := InheritedPeak(headline, test.before, test.after)
		if got := headline["memory_peak_bytes"].Guarantee; got != test.want || (reason == "") != (test.want == procstats.Exact) {
			t.Errorf("%s: %s (%q), want %s", test.name, got, reason, test.want)
		}
	}
	testkit.Equal(t, InheritedPeak(map[string]HeadlineValue{}, sample(1), sample(1)), "", "no headline")
}

// TestEndCounters has 0 where nothing was counted, and nothing where it was not measured.
func TestEndCounters(t *testing.T) {
	s := &procstats.Sample{}
	s.SetNumber(procstats.CgroupMemoryEventsMax, 12345678)
	s.SetNumber(procstats.CgroupMemoryEventsLow, 0)
	s.SetNumber(procstats.PSIIOSome, 1.25)
	s.SetAbsent(procstats.PSICPUFull, "no pressure files")
	s.SetNumber(procstats.CgroupMemoryCurrent, 4096)
	r := &Record{}
	r.Measurements, r.Absent = Values(s.Task)
	want := map[string]string{
		"cgroup_memory_events_max_total": "12345678", "cgroup_memory_events_low_total": "0", "psi_io_some_seconds_total": "1.25",
	}
	testkit.Diff(t, "result", want, r.EndCounters())
	if got := (&Record{}).EndCounters(); len(got) != 0 {
		t.Errorf("of a record without measurements: %v", got)
	}
}

// TestSetMeasured holds that a record says of the size of a directory whether it is a lower bound and how old it is.
func TestSetMeasured(t *testing.T) {
	end := time.Unix(1_000_000, 0)
	sizes := []string{"disk_files", "disk_usage_bytes"}
	for _, test := range []struct {
		walk string
		age  time.Duration
		note string
	}{
		{procstats.WalkComplete, time.Second, ""},
		{procstats.WalkComplete, 31 * time.Second, "are of a walk of the directory that began 31 s before"},
		{"under way", time.Second, "are lower bounds: walk of the directory: under way; it began 1 s before"},
		{"open: permission denied (and 1 more)", time.Hour, "walk of the directory: open: permission denied (and 1 more); it began 1h before"},
		{"", 0, ""}, // of an older build
	} {
		last := &procstats.Sample{Stamp: procstats.Stamp{Mono: time.Hour, Wall: end}}
		last.SetNumber(procstats.DiskUsage, 4096)
		last.SetNumber(procstats.DiskFiles, 1)
		if test.walk != "" {
			last.Task.Put(procstats.TextReading(procstats.DiskWalk, test.walk))
			last.SetNumber(procstats.DiskWalkStart, float64(end.Add(-test.age).Unix()))
		}
		r := &Record{}
		r.SetMeasured(last)
		if note := strings.Join(r.Notes, ""); !strings.Contains(note, test.note) || (note == "") != (test.note == "") {
			t.Errorf("%q, %s: note %q, want %q", test.walk, test.age, note, test.note)
		}
		bound := test.walk != "" && test.walk != procstats.WalkComplete
		for _, name := range sizes {
			if got := r.Number(name).Guarantee; (got == procstats.LowerBound) != bound {
				t.Errorf("%q: %s is %s", test.walk, name, got)
			}
		}
		testkit.Equal(t, len(r.Guarantees) > 0, bound, "guarantees other than the table's")
	}
}

// TestSetUnread holds that totals from before the end are lower bounds, of the units that are meant.
func TestSetUnread(t *testing.T) {
	for _, test := range []struct{ units, bounds []procstats.Unit }{
		{nil, []procstats.Unit{procstats.Seconds, procstats.Cores, procstats.Bytes}},
		{[]procstats.Unit{procstats.Seconds, procstats.Cores}, []procstats.Unit{procstats.Seconds, procstats.Cores}},
		{[]procstats.Unit{procstats.Bytes}, []procstats.Unit{procstats.Bytes}},
	} {
		last := &procstats.Sample{}
		last.SetNumber(procstats.CgroupCPUUsage, 2)
		last.SetNumber(procstats.CgroupMemoryPeak, 4096)
		last.SetNumber(procstats.ExitsCPU, 3)
		r := &Record{}
		r.SetMeasured(last)
		r.Headline = Headlines(procstats.Headlines(last, procstats.History{Ended: true, EndKnown: true, Elapsed: 4 * time.Second}))
		r.SetUnread("it was removed", test.units...)
		for id, value := range map[procstats.ID]float64{
			procstats.HeadlineCPU: 2, procstats.HeadlineCoresAverage: 0.5, procstats.HeadlineMemoryPeak: 4096,
		} {
			h, want := r.Headline[id.String()], procstats.Exact
			m, _ := procstats.LookupName(id.String())
			bound := slices.Contains(test.bounds, m.Unit)
			if bound || m.Unit != procstats.Bytes { // the ends say as much of times
				want = procstats.LowerBound
			}
			if h.Value == nil || *h.Value != value || h.Guarantee != want || (h.Reason != "") != bound || bound && len(h.Notes) > 0 {
				t.Errorf("%v: %s is %+v, want %v %s", test.units, id, h, value, want)
			}
		}
		weaker := r.Guarantees[procstats.CgroupCPUUsage.String()] == procstats.LowerBound
		testkit.Equal(t, weaker, slices.Contains(test.bounds, procstats.Seconds), "of the measurement")
	}
}

// TestMergeFinalKeepsTheDirectory holds that the walk after the end is taken, and the last one if there is none.
func TestMergeFinalKeepsTheDirectory(t *testing.T) {
	rows := &procstats.Sample{}
	rows.SetNumber(procstats.DiskFiles, 1)
	final := &procstats.Sample{}
	final.SetNumber(procstats.DiskFiles, 2)
	files, _ := MergeFinal(final, rows).Task.Number(procstats.DiskFiles)
	testkit.Equal(t, files, 2, "files by the last walk")
	final.SetAbsent(procstats.DiskFiles, "open: no such file or directory")
	files, _ = MergeFinal(final, rows).Task.Number(procstats.DiskFiles)
	testkit.Equal(t, files, 1, "files of a directory that is gone")
}

// TestGapText holds that a gap is told if it is long, and longer than what was asked for.
func TestGapText(t *testing.T) {
	for _, test := range []struct {
		gap, interval float64
		want          string
	}{{7.1, 0.25, "not sampled for up to 7.1 s"}, {0.9, 0.1, ""}, {3.9, 1, ""}, {4, 1, "not sampled for up to 4 s"}, {0, 1, ""}} {
		r := &Record{Sampling: Sampling{Interval: test.interval, LargestGap: test.gap}}
		testkit.Equal(t, r.GapText(), test.want, "the gap")
	}
}
