// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	executors = 10
	processes = 100
	interval  = time.Second
	// settling is when an executor has given back what its start took.
	settling = 2 * time.Second

	idleKiB      = 4 << 10
	streamingKiB = 6 << 10
	// logsKiB has room for the buffers of two streams.
	logsKiB = idleKiB + 256

	timeVariable = "TACHO_COST_TIME"
)

// streamingTime is how long readers stream.
func streamingTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(timeVariable)
	if text == "" {
		return time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", timeVariable, err)
	}
	return d
}

// privateKiB and pssKiB are what a process holds.
func privateKiB(t *testing.T, pid int) int {
	return procNumbers(t, pid, "smaps_rollup")["Private_Dirty"]
}
func pssKiB(t *testing.T, pid int) int { return procNumbers(t, pid, "smaps_rollup")["Pss"] }

// cpuTime is the process's CPU clock: CPUCLOCK_SCHED of a PID, as clock_getcpuclockid(3) makes it.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	var now unix.Timespec
	testkit.Must(t, unix.ClockGettime(int32(^pid<<3|2), &now))
	return time.Duration(now.Nano())
}

// TestMemory measures ten executors, from the whole binary, whose tasks have a hundred processes each: while nobody
// asks, and after each has streamed all rows for a while.
func TestMemory(t *testing.T) {
	t.Parallel()
	p := place(t)
	p.Parallel = true
	script := fmt.Sprintf("for i in $(seq %d); do sleep 1000 & done; echo > ready$$; wait", processes-1)
	all := make([]*executor, executors)
	for i := range all {
		all[i] = run(t, p, fmt.Sprint("rows", i), script)
	}
	for _, e := range all {
		rig.Eventually(t, deadline, "the task has its processes", func() bool {
			_, err := os.Stat(p.Path(fmt.Sprint("ready", e.Address().Main.PID)))
			return err == nil
		})
	}
	<-time.After(settling)
	report(t, all, "idle", settling, idleKiB)

	for _, d := range []time.Duration{10 * time.Second, streamingTime(t) - 10*time.Second} {
		before := make([]time.Duration, len(all))
		for i, e := range all {
			before[i] = cpuTime(t, e.pid())
		}
		stream(t, all, d)
		var used time.Duration
		for i, e := range all {
			used += cpuTime(t, e.pid()) - before[i]
		}
		t.Logf("streaming %d rows every %s for %s: %.2f %% of a CPU for all %d",
			processes, interval, d, 100*used.Seconds()/d.Seconds(), executors)
		report(t, all, "streaming", d, streamingKiB)
	}
}

// stream reads all executors' samples for a while.
func stream(t *testing.T, all []*executor, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(d, cancel).Stop()
	var reading sync.WaitGroup
	for _, e := range all {
		reading.Go(func() {
			samples, err := e.Stats(ctx, interval, true)
			for n := 0; err == nil; n++ {
				s, recvErr := samples.Recv()
				if err = recvErr; err == nil && len(s.Processes) < processes {
					t.Errorf("a sample with %d rows", len(s.Processes))
				}
			}
			if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	reading.Wait()
}

// report prints what executors hold, and complains about more than they may.
func report(t *testing.T, all []*executor, what string, after time.Duration, mostKiB int) {
	t.Helper()
	most, private, pss := 0, 0, 0
	for _, e := range all {
		kib := privateKiB(t, e.pid())
		most, private, pss = max(most, kib), private+kib, pss+pssKiB(t, e.pid())
	}
	t.Logf("%d executors, %s, after %s: Private_Dirty %.2f MiB each (largest %.2f), PSS %.2f",
		len(all), what, after, mib(private/len(all)), mib(most), mib(pss/len(all)))
	if most > mostKiB {
		t.Errorf("%s: the largest has %.2f MiB of Private_Dirty, want at most %.2f", what, mib(most), mib(mostKiB))
	}
}

// TestMemoryOfLogs measures executors that write their tasks' output to files.
func TestMemoryOfLogs(t *testing.T) {
	t.Parallel()
	p := place(t)
	p.Parallel = true
	testkit.Must(t, os.Mkdir(p.Path("logs"), 0o700))
	all := make([]*executor, executors)
	for i := range all {
		name := fmt.Sprint("logs", i)
		all[i] = run(t, p, name, "seq 1 500000; seq 1 500000 >&2; echo > written$$; sleep 1000", func(r *proto.LaunchRequest) {
			r.Stdio = &proto.Stdio{Mode: proto.Stdio_MODE_LOGS, Logs: &proto.Logs{
				Dir: p.Path("logs"), Prefix: name, MaxFileBytes: 1 << 20, MaxFiles: 2,
			}}
		})
	}
	for _, e := range all {
		rig.Eventually(t, time.Minute, "the task has written", func() bool {
			_, err := os.Stat(p.Path(fmt.Sprint("written", e.Address().Main.PID)))
			return err == nil
		})
	}
	<-time.After(settling)
	report(t, all, "with 6.9 MB of logs written", settling, logsKiB)
}
