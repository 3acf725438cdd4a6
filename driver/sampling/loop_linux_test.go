// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/driver/sampling"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// busy is a task with several processes that use CPU, memory and storage, and that end.
const busy = `dd if=/dev/zero of=f bs=1M count=4 conv=fsync 2>/dev/null
(while :; do :; done) &
while :; do /bin/true; dd if=/dev/zero of=f bs=64k count=1 2>/dev/null; sleep 0.02; done`

// TestBothWays holds that the loop says of a task what its executor says: the same measurements, present or absent
// for the same reason, counters in the order of their reading, the same limits, and the same processes.
func TestBothWays(t *testing.T) {
	t.Parallel()
	all := func(r *proto.LaunchRequest) {
		for _, m := range procstats.Table() {
			if m.Source != procstats.SourceDisk && m.Source != procstats.SourceSmaps && m.Source != procstats.SourcePortable {
				r.Selection = append(r.Selection, uint32(m.ID))
			}
		}
	}
	for name, change := range map[string]func(*testing.T, *proto.LaunchRequest){
		"default": func(*testing.T, *proto.LaunchRequest) {},
		"all":     func(_ *testing.T, r *proto.LaunchRequest) { all(r) },
		"one": func(_ *testing.T, r *proto.LaunchRequest) {
			r.Selection = []uint32{uint32(procstats.CgroupMemoryCurrent), uint32(procstats.ProcessCPU)}
		},
		"used before": func(t *testing.T, r *proto.LaunchRequest) {
			r.Cgroup = givenGroup(t)
			use(t, r.Cgroup)
			all(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := run(t, busy, func(r *proto.LaunchRequest) { change(t, r) })
			s := open(t, newLoop(t), k, 20*time.Millisecond)
			for range 5 {
				compareBoth(t, s, k)
			}
		})
	}
}

// use burns CPU and memory in a cgroup that is given to another task next.
func use(t *testing.T, given *proto.CgroupPlacement) {
	t.Helper()
	k := run(t, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 30000000 /dev/zero | tail -c 30000000 >/dev/null",
		func(r *proto.LaunchRequest) { r.Cgroup = given })
	<-k.done
}

// compareBoth holds what the executor of a task says now against what a stream of it says before and after.
func compareBoth(t *testing.T, s *sampling.Stream, k *task) {
	t.Helper()
	before := recv(t, s)
	executors := testkit.Value(k.Sample(t.Context(), 0, true))(t)
	answered := kernel.Now().Mono // the executor has read all by now, and the loop's next sample is read after it
	after := recv(t, s)
	for after.Mono < answered {
		after = recv(t, s)
	}
	compare(t, before, executors, after)
}

// compare holds an executor's sample against the loop's before and after it.
func compare(t *testing.T, before, executors, after *procstats.Sample) {
	t.Helper()
	if len(executors.Task) != len(before.Task) {
		t.Errorf("the executor has %d measurements, the loop %d", len(executors.Task), len(before.Task))
	}
	for _, theirs := range executors.Task {
		m, _ := procstats.Lookup(theirs.ID())
		first, found := before.Task.Get(theirs.ID())
		second, _ := after.Task.Get(theirs.ID())
		switch {
		case m.Source == procstats.SourceExecutor || m.Source == procstats.SourceRusage:
			// Each reader counts its own work, and what was reaped is of the time when the executor was asked.
		case m.Source == procstats.SourceSkb:
			if theirs.Present() {
				t.Errorf("%s: the executor has counted %+v beside the loop", m.Name, theirs)
			}
		case !found || theirs.Present() != first.Present() && theirs.Present() != second.Present():
			t.Errorf("%s: the executor says %+v, the loop %+v", m.Name, theirs, first)
		case !theirs.Present() && theirs.Reason() != first.Reason() && theirs.Reason() != second.Reason():
			t.Errorf("%s is absent: the executor says %q, the loop %q", m.Name, theirs.Reason(), first.Reason())
		case m.Kind == procstats.Counter && m.Source != procstats.SourceTree && m.Source != procstats.SourceIO:
			low, _ := first.Number()
			number, _ := theirs.Number()
			high, _ := second.Number()
			if number < low || number > high {
				t.Errorf("%s: the executor says %v between %v and %v of the loop", m.Name, number, low, high)
			}
		}
	}
	compareRows(t, before, executors)
}

// compareRows holds that the processes which were there all the time have the same measurements.
func compareRows(t *testing.T, own, executors *procstats.Sample) {
	t.Helper()
	same := 0
	for _, ours := range own.Processes {
		for _, theirs := range executors.Processes {
			if ours.ProcessID != theirs.ProcessID {
				continue
			}
			same++
			if len(ours.Readings) != len(theirs.Readings) {
				t.Errorf("process %d has %d readings in the loop, %d in the executor", ours.PID, len(ours.Readings), len(theirs.Readings))
			}
			mine, _ := ours.Readings.Number(procstats.ProcessCPU)
			its, _ := theirs.Readings.Number(procstats.ProcessCPU)
			if mine > its {
				t.Errorf("process %d has used %v s in the loop, and %v s later in the executor", ours.PID, mine, its)
			}
		}
	}
	if same == 0 { // the shell is
		t.Errorf("%d processes are in both samples: %d of the loop, %d of the executor", same, len(own.Processes), len(executors.Processes))
	}
}

// TestUnreadable holds which tasks are left to their executors.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	k := run(t, "sleep 1000", func(r *proto.LaunchRequest) {
		r.Cgroup = &proto.CgroupPlacement{Mode: proto.CgroupPlacement_MODE_NONE}
	})
	for _, loop := range []*sampling.Loop{newLoop(t), sampling.New(hclog.NewNullLogger(), true)} {
		if _, err := loop.Open(t.Context(), k.task(), time.Second); !errors.Is(err, sampling.ErrUnreadable) {
			t.Errorf("got %v, want %v", err, sampling.ErrUnreadable)
		}
	}
}

// TestEnd holds that a stream ends with the executor's final sample, whose counters are the record's, and that the
// record has what the loop sampled.
func TestEnd(t *testing.T) {
	t.Parallel()
	k := run(t, "while [ ! -e end ]; do /bin/true; sleep 0.02; done", nil)
	s := open(t, newLoop(t), k, 20*time.Millisecond)
	last := recv(t, s)
	for range 10 {
		last = recv(t, s)
	}
	must(t, os.WriteFile(filepath.Join(k.folder, "end"), nil, 0o600))
	for {
		sample, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		checkCounters(t, last, sample)
		last = sample
	}
	for _, id := range []procstats.ID{procstats.CgroupCPUUsage, procstats.TreeProcessesExited} {
		streamed, _ := last.Task.Number(id)
		recorded, _ := k.final.Measurements[id.String()].(float64)
		if streamed == 0 || recorded != streamed {
			t.Errorf("%s: the last sample says %v, the record %v", id, streamed, recorded)
		}
	}
	if l := k.final.Diagnosis.LastReading; l == nil || l.AgeSeconds > 5 {
		t.Errorf("the record has no last sample: %+v", l)
	}
	p := k.final.Processes
	if p.Reason != "" || !slices.ContainsFunc(p.Rows, func(r record.ProcessRow) bool { return r.PID == k.final.PID }) {
		t.Errorf("the main process %d has no row: %+v", k.final.PID, p)
	}
	if _, found := k.final.Measurements[procstats.TreeProcesses.String()]; !found {
		t.Errorf("the record has no gauges of the last sample: %v", k.final.Absent)
	}
}

// checkCounters holds that no counter goes down.
func checkCounters(t *testing.T, before, s *procstats.Sample) {
	t.Helper()
	for _, reading := range s.Task {
		m, _ := procstats.Lookup(reading.ID())
		now, ok := reading.Number()
		then, _ := before.Task.Number(reading.ID())
		if ok && m.Kind == procstats.Counter && now < then {
			t.Errorf("%s fell from %v to %v", m.Name, then, now)
		}
	}
}

// TestAnotherLoop holds that counters continue when another process reads the task, and that rates are measured from
// the last sample of the one before.
func TestAnotherLoop(t *testing.T) {
	t.Parallel()
	k := run(t, "while :; do /bin/true; sleep 0.02; done", nil)
	first := sampling.New(hclog.NewNullLogger(), false)
	s := open(t, first, k, 20*time.Millisecond)
	var last *procstats.Sample
	for range 20 {
		last = recv(t, s)
	}
	first.Close()
	s = open(t, newLoop(t), k, 20*time.Millisecond)
	if s.Baseline().Mono < last.Mono-time.Second { // the last one may have been quiet
		t.Errorf("the baseline is of %s, the last sample of %s", s.Baseline().Mono, last.Mono)
	}
	checkCounters(t, last, recv(t, s))
}

// TestExecutorSleeps holds that an executor uses no CPU time while the loop reads its task. What it still does about
// its start may take a while on a loaded machine, and be seen in one of the windows.
func TestExecutorSleeps(t *testing.T) {
	t.Parallel()
	k := run(t, "while :; do /bin/true; sleep 0.05; done", nil)
	s := open(t, newLoop(t), k, 50*time.Millisecond)
	for range 20 { // it was started and asked just now
		recv(t, s)
	}
	var used []time.Duration
	for range 3 {
		before := executorCPU(t, k)
		for range 20 {
			recv(t, s)
		}
		if used = append(used, executorCPU(t, k)-before); used[len(used)-1] == 0 {
			return
		}
	}
	t.Errorf("the executor used %s, in as many seconds", used)
}

func executorCPU(t *testing.T, k *task) time.Duration {
	t.Helper()
	cpu := testkit.Value(kernel.ProcessCPU(k.Address().Executor.PID))(t)
	return cpu
}

// TestOneCollection holds that readers share what is collected.
func TestOneCollection(t *testing.T) {
	t.Parallel()
	k := run(t, "sleep 1000", nil)
	l := newLoop(t)
	const interval = 200 * time.Millisecond
	streams := []*sampling.Stream{open(t, l, k, interval), open(t, l, k, interval), open(t, l, k, interval)}
	var same int
	for range 5 {
		var samples []*procstats.Sample
		for _, s := range streams {
			samples = append(samples, recv(t, s))
		}
		if samples[0] == samples[1] && samples[1] == samples[2] {
			same++
		}
	}
	if same < 3 { // a stream that was opened at a tick is one behind
		t.Errorf("%d of 5 samples were shared", same)
	}
}

// TestSamplingBudget asks for more samples than the budget has, and holds that the interval is stretched and the
// samples say so.
func TestSamplingBudget(t *testing.T) {
	const requested = time.Millisecond
	task := run(t, busy, func(*proto.LaunchRequest) {}).task()
	loop := newLoop(t)
	said := make(chan string, 1)
	task.SamplingBudget, task.Stretched = 0.005, func(text string) {
		select {
		case said <- text:
		default:
		}
	}
	s := testkit.Value(loop.Open(t.Context(), task, requested))(t)
	for range 10_000 {
		sample := recv(t, s)
		now, _ := sample.Task.Number(procstats.ExecutorInterval)
		// What was read when the stream was opened may be from before it was sampled.
		if asked, known := sample.Task.Number(procstats.ExecutorIntervalRequested); known && asked != requested.Seconds() {
			t.Fatalf("%v s were requested, want %v", asked, requested.Seconds())
		}
		if now < 2*requested.Seconds() {
			continue
		}
		if text := <-said; !strings.Contains(text, "stretched from 1ms to") || !strings.Contains(text, "the sampling budget is 0.5 % of one core") {
			t.Errorf("it says %q", text)
		}
		if loop.Note(task.ID) == "" {
			t.Error("the record would not say so")
		}
		return
	}
	t.Error("10000 samples, each a millisecond after the one before")
}
