// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// TestQuiet holds that a sleeping task is read in part, with CPU rates of 0 and the stamps of what was not read, and
// whole as soon as it moves.
func TestQuiet(t *testing.T) {
	t.Parallel()
	k := run(t, "trap 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done' USR1; while :; do sleep 1000 & wait; done", nil)
	s := open(t, newLoop(t), k, 50*time.Millisecond)
	before := recv(t, s)
	if _, ok := before.Task.Number(procstats.PSICPUSome); !ok {
		t.Skip("without PSI no task is quiet")
	}
	if _, ok := before.Task.Number(procstats.CgroupMemoryCurrent); !ok {
		t.Skip("without a memory controller no task is quiet")
	}
	deadline := time.Now().Add(limit)
	quiet := recv(t, s)
	for ; quiet.Checked.Zero(); quiet = recv(t, s) {
		if time.Now().After(deadline) {
			t.Fatal("a sleeping task is never quiet")
		}
		before = quiet
	}
	checkQuiet(t, before, quiet)
	must(t, k.Signal(t.Context(), syscall.SIGUSR1, false))
	was, _ := quiet.Task.Number(procstats.CgroupCPUUsage)
	for {
		sample := recv(t, s)
		cpu, _ := sample.Task.Number(procstats.CgroupCPUUsage)
		if cpu > was {
			if !sample.Checked.Zero() {
				t.Error("a task that has used CPU time is quiet")
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the task has used no CPU time after a signal")
		}
	}
}

// TestOnQuiet holds that Recv waits while a function takes the samples of a sleeping task, and returns the first that it
// does not take.
func TestOnQuiet(t *testing.T) {
	t.Parallel()
	k := run(t, "sleep 1000", nil)
	s := open(t, newLoop(t), k, 20*time.Millisecond)
	deadline := time.Now().Add(limit)
	for recv(t, s).Checked.Zero() {
		if time.Now().After(deadline) {
			t.Skip("without PSI or a memory controller no task is quiet")
		}
	}
	const most = 10
	taken, order := 0, []time.Duration{} // of what was taken or received: nothing is taken between two calls of Recv
	s.OnQuiet(func(q *procstats.Sample) bool {
		if q.Checked.Zero() || taken == most {
			return false
		}
		taken++
		order = append(order, q.Mono)
		return true
	})
	for taken < most {
		order = append(order, recv(t, s).Mono)
		if time.Now().After(deadline.Add(limit)) {
			t.Fatalf("only %d of %d samples were taken", taken, most)
		}
	}
	if !slices.IsSorted(order) || len(slices.Compact(order)) < len(order) {
		t.Errorf("not in order: %v", order)
	}
}

// TestSettingIsSeen holds that a sample has a limit that was changed before it, also of a quiet task, and without
// having read it for every sample.
func TestSettingIsSeen(t *testing.T) {
	t.Parallel()
	k := run(t, "sleep 1000", nil)
	s := open(t, newLoop(t), k, 50*time.Millisecond)
	folder := cmp.Or(k.task().Cgroup.V1["pids"], k.task().Cgroup.V2)
	if before, ok := recv(t, s).Task.Get(procstats.CgroupPidsMax); !ok || before.Reason() != procstats.ReasonNoLimit && !before.Present() {
		t.Skip("without a pids controller there is no limit")
	}
	deadline := time.Now().Add(limit)
	for quiet := recv(t, s); quiet.Checked.Zero() && time.Now().Before(deadline); quiet = recv(t, s) {
		continue // without PSI to the deadline
	}
	for _, most := range []float64{1000, 2000} {
		must(t, os.WriteFile(filepath.Join(folder, "pids.max"), []byte(strconv.Itoa(int(most))), 0o600))
		written := kernel.Now().Mono
		sample := recv(t, s)
		for sample.Mono <= written {
			sample = recv(t, s)
		}
		if got, _ := sample.Task.Number(procstats.CgroupPidsMax); got != most {
			t.Errorf("the sample after a limit of %v was set says %v", most, got)
		}
	}
}

// TestSets holds that a busy task's processes are not read for every sample, that samples between two sets have the
// newest with its time, whose parts add up to the task's total of then, and rates over the time between two; and that
// a look has them read for every sample.
func TestSets(t *testing.T) {
	t.Parallel()
	k := run(t, "(while :; do :; done) & while :; do /bin/true; done", nil)
	of := k.task()
	of.RowInterval = 200 * time.Millisecond
	s := testkit.Value(newLoop(t).Open(t.Context(), of, 20*time.Millisecond))(t)
	before := recv(t, s)
	rests := 0 // on a busy machine the task may have no CPU for a whole interval, which has its processes read
	next := func() *procstats.Sample {
		sample := recv(t, s)
		was, _ := before.Task.Number(procstats.CgroupCPUUsage)
		if is, _ := sample.Task.Number(procstats.CgroupCPUUsage); is == was {
			rests++
		}
		return sample
	}
	for range 119 { // it is young for ten intervals of the rows
		before = recv(t, s)
	}
	before = next()
	if _, ok := before.Task.Number(procstats.CgroupPidsCurrent); !ok {
		t.Skip("without a pids controller every sample has rows of its own")
	}
	sets := map[time.Duration]bool{}
	began := before.Mono
	for range 40 {
		sample := next()
		set, _ := sample.RowsAt()
		sets[set.Mono] = true
		checkSet(t, before, sample)
		checkCounters(t, before, sample)
		before = sample
	}
	took := before.Mono - began
	if n := len(sets); n < 3 || n > int(took/of.RowInterval)+2+rests {
		t.Errorf("%d sets in %v with %d rests, want one every %v", n, took, rests, of.RowInterval)
	}
	s.Look()
	for range 5 {
		recv(t, s)
	}
	for range 5 {
		if sample := recv(t, s); sample.Sources.At(procstats.SourceTree).Mono < sample.Mono {
			t.Error("somebody looks, and the processes are not read")
		}
	}
}

func checkSet(t *testing.T, before, s *procstats.Sample) {
	t.Helper()
	number := func(id procstats.ID) float64 {
		n, ok := s.Task.Number(id)
		if !ok {
			t.Fatalf("no %s", id)
		}
		return n
	}
	rows := 0.0
	for i := range s.Processes {
		cpu, _ := s.Processes[i].Readings.Number(procstats.ProcessCPU)
		rows += cpu
	}
	total := number(procstats.TreeCPUAtRows)
	if sum := rows + number(procstats.TreeCPUExited) + number(procstats.TreeCPUUnattributed); sum-total > 1e-6 || total-sum > 1e-6 {
		t.Errorf("rows, exited and unattributed are %v, the total of then %v", sum, total)
	}
	if now := number(procstats.CgroupCPUUsage); now < total {
		t.Errorf("%v s in all, %v s when the processes were read", now, total)
	}
	for i := range s.Processes {
		rate := s.ProcessRate(before, &s.Processes[i], procstats.ProcessCPU)
		if cores, ok := rate.Number(); !ok && rate.Reason() != "less than 20 ms between the readings" || cores < 0 || cores > 1.5 {
			t.Errorf("process %d of %d uses %v cores: %q", s.Processes[i].PID, len(s.Processes), cores, rate.Reason())
		}
	}
}

func checkQuiet(t *testing.T, before, quiet *procstats.Sample) {
	t.Helper()
	if !slices.Equal(quiet.Sources, before.Sources) {
		t.Error("sources have new stamps and were not read")
	}
	if rate := quiet.Rate(before, procstats.CgroupCPUUsage); !rate.Present() {
		t.Errorf("the task uses no CPU time, and its rate is absent: %s", rate.Reason())
	} else if n, _ := rate.Number(); n != 0 {
		t.Errorf("CPU rate %v of a quiet task", n)
	}
	if len(quiet.Processes) == 0 {
		t.Fatal("no process rows")
	}
	for i := range quiet.Processes {
		if rate := quiet.ProcessRate(before, &quiet.Processes[i], procstats.ProcessCPU); !rate.Present() {
			t.Errorf("CPU rate of a process is absent: %s", rate.Reason())
		}
	}
	if rate := quiet.Rate(before, procstats.CgroupMemoryPgfault); rate.Present() {
		t.Error("a rate of what was not read again")
	}
}
