// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestFallbackRecord holds what is said of the end of a task whose driver keeps no record.
func TestFallbackRecord(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 11, 0, 0, 0, time.UTC)
	sample := &procstats.Sample{Stamp: procstats.Stamp{Wall: at.Add(-3100 * time.Millisecond)}}
	sample.SetNumber(procstats.TreeMemory, 1<<30)
	const before = "3.1 s before: 1 GiB"
	for _, test := range []struct {
		name string
		exit hook.Exit
		want record.End
	}{
		{"success", hook.Exit{At: at}, record.End{Outcome: record.Outcome(record.Completed), Summary: "Completed with exit code 0"}},
		{
			"failure",
			hook.Exit{Code: 2, At: at},
			record.End{Outcome: record.Outcome(record.Failed), Summary: "Failed with exit code 2", LastReading: before},
		},
		{
			"failure at an unknown time",
			hook.Exit{Code: 2},
			record.End{Outcome: record.Outcome(record.Failed), Summary: "Failed with exit code 2"},
		},
		{
			"killed by an OOM killer",
			hook.Exit{Code: 137, Signal: 9, OOMKilled: true, At: at},
			record.End{
				Outcome: record.OOMKilled, Summary: "Killed: out of memory", OOM: "1 OOM kill", LastReading: before,
				Remedy: "Compare the task's memory limit and the host's memory with what the task uses",
			},
		},
		{
			"lost",
			hook.Exit{Lost: "executor_lost: process 9 died and the task was killed with it", At: at},
			record.End{
				Outcome: record.Outcome(record.ExecutorLost), LastReading: before,
				Summary: "Executor lost: process 9 died and the task was killed with it",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			failed := taskWith(usageAfter(sample))
			r := failed.fallbackRecord(test.exit, state.Task{State: hook.State{StartedAt: at.Add(-time.Minute)}}, nil)
			testkit.Diff(t, "end", test.want, r.End())
			if r.Measurements[procstats.TreeMemory.String()] != float64(1<<30) || r.Headline["memory_bytes"].Value == nil {
				t.Errorf("measurements %v, headlines %v", r.Measurements, r.Headline)
			}
			testkit.Equal(t, r.Diagnosis.OOMKilled, test.exit.OOMKilled, "OOM killed")
		})
	}
}

func taskWith(u *usage) *Task {
	return &Task{host: &Host{}, alloc: &Alloc{}, job: &job.Job{}, group: &job.Group{}, spec: &job.Task{}, usage: u}
}

// usageAfter has one reading of a task.
func usageAfter(s *procstats.Sample) *usage {
	tracker := figures.NewTracker(0, 0, figures.Totals{})
	tracker.Take(s)
	return &usage{tracker: tracker}
}

// TestFallbackReadingOfNobody holds that a reading of a task without a process is not its last one.
func TestFallbackReadingOfNobody(t *testing.T) {
	t.Parallel()
	u := newUsage(t, time.Second, hclog.NewNullLogger())
	u.begin(1, time.Time{})
	for i, rss := range []float64{1 << 30, 408 << 10} {
		s := readingAt(time.Duration(i) * time.Second)
		s.SetNumber(procstats.TreeProcesses, float64(1-i))
		s.SetNumber(procstats.TreeMemory, rss)
		u.UpdateStats(s)
	}
	ended := taskWith(u)
	r := ended.fallbackRecord(hook.Exit{Code: 2, At: readingAt(2 * time.Second).Wall}, state.Task{Starts: 1}, nil)
	if got := r.End().LastReading; got != "2 s before: 1 GiB" || r.Measurements[procstats.TreeMemory.String()] != float64(1<<30) {
		t.Errorf("last reading %q, measurements %v", got, r.Measurements)
	}
}

// TestFallbackTotals holds that what a driver saves of a task whose executor was lost replaces older readings.
func TestFallbackTotals(t *testing.T) {
	t.Parallel()
	last := readingAt(0)
	last.SetNumber(procstats.TreeMemory, 1<<30)
	last.SetAbsent(procstats.PSICPUSome, "not read")
	cpu := 2.5
	saved := &record.Record{
		State:        record.Lost,
		Measurements: map[string]any{"cgroup_cpu_usage_seconds_total": cpu, "psi_cpu_some_seconds_total": 0.5},
		Headline:     map[string]record.HeadlineValue{"cpu_seconds_total": {Value: &cpu}, "memory_bytes": {Reason: "not read"}},
	}
	lost := taskWith(usageAfter(last))
	r := lost.fallbackRecord(hook.Exit{Lost: "executor_lost: process 9 died", At: last.Wall.Add(time.Second)}, state.Task{}, saved)
	want := map[string]any{"cgroup_cpu_usage_seconds_total": cpu, "psi_cpu_some_seconds_total": 0.5, "tree_memory_bytes": float64(1 << 30)}
	if diff := cmp.Diff(want, r.Measurements); diff != "" || len(r.Absent) > 0 {
		t.Errorf("absent %v, measurements (-want +got):\n%s", r.Absent, diff)
	}
	if *r.Headline["cpu_seconds_total"].Value != cpu || *r.Headline["memory_bytes"].Value != 1<<30 {
		t.Errorf("headlines %+v", r.Headline)
	}
}

// TestFallbackKeepsBounds holds that the size of a directory that was not walked to its end is a lower bound in these
// records too, with and without what a driver has saved.
func TestFallbackKeepsBounds(t *testing.T) {
	t.Parallel()
	for name, saved := range map[string]*record.Record{"nothing saved": nil, "saved": {State: record.Lost}} {
		last := readingAt(0)
		last.SetNumber(procstats.DiskUsage, 1<<20)
		last.SetNumber(procstats.DiskWalkStart, 0)
		last.Task.Put(procstats.TextReading(procstats.DiskWalk, "under way"))
		r := taskWith(usageAfter(last)).fallbackRecord(hook.Exit{At: last.Wall}, state.Task{}, saved)
		testkit.Equal(t, r.Guarantees["disk_usage_bytes"], procstats.LowerBound, "guarantee, %s", name)
		if len(r.Notes) != 2 || !strings.Contains(r.Notes[1], "lower bounds") {
			t.Errorf("%s: notes %q", name, r.Notes)
		}
	}
}

// TestEndDetailsWithoutRecord holds that the event of an end has what was counted, if the driver keeps no record.
func TestEndDetailsWithoutRecord(t *testing.T) {
	t.Parallel()
	u := newUsage(t, time.Second, hclog.NewNullLogger())
	u.begin(1, time.Time{})
	s := readingAt(time.Second)
	s.SetNumber(procstats.CgroupMemoryEventsOOMKill, 1)
	s.SetNumber(procstats.PSIMemoryFull, 0.25)
	s.SetAbsent(procstats.PSIIOFull, "not read")
	u.UpdateStats(s)
	want := map[string]string{"cgroup_memory_events_oom_kill_total": "1", "psi_memory_full_seconds_total": "0.25"}
	testkit.Diff(t, "details", want, (&Task{usage: u}).endDetails(nil))
}
