// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package figures_test

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// sampleAt is a sample of the CPU time and OOM kills of a task.
func sampleAt(at time.Duration, cpu, kills float64) *procstats.Sample {
	s := &procstats.Sample{Stamp: procstats.Stamp{Mono: at, Wall: time.Unix(1000, 0).Add(at)}}
	s.SetRead(procstats.SourceCgroup, s.Stamp)
	s.SetNumber(procstats.CgroupCPUUsage, cpu)
	s.SetNumber(procstats.CgroupMemoryEventsOOMKill, kills)
	return s
}

// headline returns the value of a headline, and its reason if it has none.
func headline(t *testing.T, f *figures.Figures, id procstats.ID) (float64, string) {
	t.Helper()
	for _, h := range f.Headlines {
		if h.ID == id {
			value, _ := h.Reading.Number()
			return value, h.Reading.Reason()
		}
	}
	t.Fatalf("no %s", id)
	return 0, ""
}

// TestRates holds that rates are measured from the reading before, and never over a gap or another start.
func TestRates(t *testing.T) {
	t.Parallel()
	tracker := figures.NewTracker(4, 0, figures.Totals{})
	take := func(s *procstats.Sample, want float64, known bool) {
		t.Helper()
		tracker.Take(s)
		got, reason := headline(t, tracker.Figures(), procstats.HeadlineCores)
		if got != want || known != (reason == "") {
			t.Errorf("at %s: %v cores (%s), want %v", s.Mono, got, reason, want)
		}
	}
	tracker.Begin(1, time.Unix(1000, 0))
	take(sampleAt(time.Second, 1, 0), 0, false)
	take(sampleAt(3*time.Second, 4, 0), 1.5, true)
	tracker.Break()
	take(sampleAt(63*time.Second, 10, 0), 0, false)
	tracker.Begin(2, time.Unix(1064, 0))
	tracker.MeasureFrom(sampleAt(65*time.Second, 1, 0))
	take(sampleAt(66*time.Second, 2, 0), 1, true)
}

// TestOOMKills holds that the kills of all starts are counted once, and that the present start counts while it is read.
func TestOOMKills(t *testing.T) {
	t.Parallel()
	tracker := figures.NewTracker(4, 0, figures.Totals{})
	kills := func(want float64, known bool) {
		t.Helper()
		if got, ok := tracker.Figures().OOMKills(); got != want || ok != known {
			t.Errorf("%v kills (known: %v), want %v", got, ok, want)
		}
	}
	kills(0, false)
	tracker.Begin(1, time.Time{})
	kills(0, false)
	tracker.Take(sampleAt(time.Second, 1, 2))
	kills(2, true)
	tracker.End(&record.Record{Diagnosis: record.Diagnosis{OOM: record.OOM{Kills: new(int64(3))}}})
	kills(3, true)
	tracker.End(&record.Record{}) // reported again
	kills(3, true)
	tracker.Begin(2, time.Time{})
	kills(0, false)
	tracker.Take(sampleAt(2*time.Second, 1, 1))
	kills(4, true)
}

// TestCountersDoNotFall holds that what was published stays, whatever is read next.
func TestCountersDoNotFall(t *testing.T) {
	t.Parallel()
	tracker := figures.NewTracker(4, 0, figures.Totals{})
	tracker.Begin(1, time.Time{})
	for _, cpu := range []float64{5, 2, 7} {
		tracker.Take(sampleAt(time.Duration(cpu)*time.Second, cpu, 0))
		f := tracker.Figures()
		for _, id := range []procstats.ID{procstats.CgroupCPUUsage, procstats.HeadlineCPU} {
			if got, ok := f.Counters.Number(id); !ok || got != max(5, cpu) {
				t.Errorf("%s is %v", id, got)
			}
		}
	}
}

// TestLast holds that a reading of a task without a process is not its last one.
func TestLast(t *testing.T) {
	t.Parallel()
	tracker := figures.NewTracker(4, 0, figures.Totals{})
	tracker.Begin(1, time.Time{})
	alive, gone := sampleAt(time.Second, 1, 0), sampleAt(2*time.Second, 2, 0)
	alive.SetNumber(procstats.TreeProcesses, 1)
	gone.SetNumber(procstats.TreeProcesses, 0)
	tracker.Take(alive)
	tracker.Take(gone)
	if last, list := tracker.Last(); last != alive || len(list) == 0 {
		t.Errorf("the last reading is of %s", last.Mono)
	}
	testkit.Diff(t, "counters end with the newest reading", 2.0, tracker.Measurements()["cgroup_cpu_usage_seconds_total"])
}

// TestRateWithoutLateTime leaves out CPU time that was used before it was seen, unless a cgroup counts it.
func TestRateWithoutLateTime(t *testing.T) {
	t.Parallel()
	late := func(seconds float64) map[procstats.ID]float64 {
		return map[procstats.ID]float64{procstats.TreeCPULate: seconds}
	}
	for name, test := range map[string]struct {
		before, now map[procstats.ID]float64
		want        float64
	}{
		"none is known": {nil, nil, 4},
		"some is late":  {late(0), late(6), 1},
		"all is late":   {late(0), late(9), 0},
		"in a cgroup": {
			map[procstats.ID]float64{procstats.TreeCPULate: 0, procstats.CgroupCPUUsage: 1},
			map[procstats.ID]float64{procstats.TreeCPULate: 6, procstats.CgroupCPUUsage: 9},
			4,
		},
	} {
		at := func(at time.Duration, cpu float64, more map[procstats.ID]float64) figures.Moment {
			return figures.MomentOfValues(procstats.Stamp{Mono: at}, 1, func(id procstats.ID) (float64, bool) {
				value, ok := more[id]
				if id == procstats.TreeCPU {
					return cpu, true
				}
				return value, ok
			})
		}
		before, now := at(10*time.Second, 1, test.before), at(12*time.Second, 9, test.now)
		if got := now.Rate(&before, figures.CPU); got != test.want {
			t.Errorf("%s: %v cores, want %v", name, got, test.want)
		}
	}
}

// TestAsleep holds that a reading with the numbers of the one before is of a task that sleeps, whatever that cost to read.
func TestAsleep(t *testing.T) {
	for name, test := range map[string]struct {
		id   procstats.ID
		want bool
	}{
		"nothing": {procstats.CgroupCPUUsage, true}, "what it cost": {procstats.ExecutorCollections, true},
		"what it wrote": {procstats.CgroupIOWrite, false},
	} {
		tracker := figures.NewTracker(1, 0, figures.Totals{})
		tracker.Begin(1, time.Time{})
		for i := range 2 {
			s := sampleAt(time.Duration(i+1)*time.Second, 1, 0)
			if test.id != procstats.CgroupCPUUsage {
				s.SetNumber(test.id, float64(i))
			}
			tracker.Take(s)
		}
		testkit.Equal(t, tracker.Asleep(), test.want, "asleep if %s has changed", name)
	}
}
