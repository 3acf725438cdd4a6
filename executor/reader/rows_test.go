// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package reader

import (
	"testing"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/source"
)

// TestEarlierSet holds that a set, which is held until the one after the next, has no room for readings that never
// come.
func TestEarlierSet(t *testing.T) {
	ids := []procstats.ID{procstats.TreeCPU, procstats.TreeThreads, procstats.TreeProcesses}
	s := rows{selection: procstats.Select(ids...), newest: &procstats.Sample{}}
	for _, id := range append(ids, procstats.CgroupCPUUsage) {
		s.newest.SetNumber(id, 1)
	}
	if task := s.reduced().Task; len(task) != len(ids) || cap(task) != len(ids) {
		t.Errorf("%d readings with room for %d, want %d", len(task), cap(task), len(ids))
	}
}

// TestReapedIsWhole holds that all that is known of reaped children crosses the wire.
func TestReapedIsWhole(t *testing.T) {
	want := source.Reaped{
		CPU: 1, MaxRSS: 2, PeakRSS: 3, Minflt: 4, Majflt: 5, Nvcsw: 6, Nivcsw: 7, Inblock: 8, Oublock: 9,
		IO:       kernel.ProcIO{Rchar: 10, Wchar: 11, ReadBytes: 12, WriteBytes: 13, CancelledWriteBytes: 14},
		IOMissed: 15, Outside: 16, Watched: true, Processes: 17, At: procstats.Stamp{Mono: 18},
	}
	testkit.Equal(t, ToReaped(FromReaped(want), want.At), want, "result")
	m := FromReaped(want).ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		if f := m.Descriptor().Fields().Get(i); !m.Has(f) {
			t.Errorf("%s is not sent", f.Name())
		}
	}
}

// TestGone holds which samples were taken when the task was ending, so that the reader does not remember them.
func TestGone(t *testing.T) {
	const tasks, tree, cpu = procstats.CgroupPidsCurrent, procstats.TreeProcesses, procstats.CgroupCPUUsage
	number := procstats.NumberReading
	for _, test := range []struct {
		name     string
		readings []procstats.Reading
		want     bool
	}{
		{"one process", []procstats.Reading{number(tree, 1)}, false},
		{"no process", []procstats.Reading{number(tree, 0)}, true},
		{"empty cgroup", []procstats.Reading{number(tasks, 0), number(cpu, 1)}, true},
		{"process outside the cgroup", []procstats.Reading{number(tasks, 0), number(tree, 1)}, false},
		{"nothing counts processes", []procstats.Reading{number(cpu, 1)}, false},
		{"removed cgroup", []procstats.Reading{procstats.AbsentReading(cpu, "cgroup was removed"), number(tree, 1)}, true},
		{"CPU time not readable", []procstats.Reading{procstats.AbsentReading(cpu, "permission denied")}, false},
	} {
		s := &procstats.Sample{}
		for _, reading := range test.readings {
			s.Task.Put(reading)
		}
		testkit.Equal(t, Gone(s), test.want, "%s: gone", test.name)
	}
}
