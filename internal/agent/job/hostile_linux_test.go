// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package job_test

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/internal/agent"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/job"
)

// What one job file may take of the agent.
const (
	hostileMemory = 64 << 20
	hostileTime   = time.Second
)

// TestHostileJobs checks job files that are meant to end the agent: some for a crash, and TACHO_HOSTILE_JOBS of them, from
// TACHO_HOSTILE_SEED on, for what they cost.
func TestHostileJobs(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	a := startAgent(t)
	var accepted int
	var longest time.Duration
	var largest uint64
	first := number("TACHO_HOSTILE_SEED", 1)
	count := number("TACHO_HOSTILE_JOBS", 0)
	measured := count > 0
	count = cmp.Or(count, 50)
	for seed := first; seed < first+count; seed++ {
		text := job.HostileJob(seed)
		check := func() {
			if _, err := a.Validate(t.Context(), job.Source{Filename: "f", Text: text}); err == nil {
				accepted++
			} else if os.Getenv("TACHO_HOSTILE_VERBOSE") != "" {
				t.Logf("seed %d, %d bytes: %.150s", seed, len(text), err)
			}
		}
		if !measured {
			check()
			continue
		}
		before := time.Now()
		memory, took := cost(check)
		if took > hostileTime || memory > hostileMemory { // the collector may have been late, and the rest of the machine in the way
			memory, took = peak(check)
		}
		if longest = max(longest, took); took > hostileTime {
			t.Errorf("seed %d: %s of CPU, %s in all: %.200q", seed, took, time.Since(before), text)
		}
		if largest = max(largest, memory); memory > hostileMemory {
			t.Errorf("seed %d: %d MiB: %.200q", seed, memory>>20, text)
		}
	}
	t.Logf("%d job files, %d of them accepted; at most %s of CPU and %d MiB each", count, accepted, longest, largest>>20)
}

// startAgent returns an agent that is ready, and ends with the test.
func startAgent(t *testing.T) *agent.Agent {
	t.Helper()
	c := config.Default()
	c.DataDir = t.TempDir()
	a := agent.New(c, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	select {
	case <-a.Ready():
	case err := <-ended:
		ended <- err
		t.Fatalf("agent: %v", err)
	}
	return a
}

// cost is what a function takes: all memory that it asks for, and CPU time.
func cost(f func()) (memory uint64, took time.Duration) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime()
	f()
	took = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc + after.StackSys - min(before.StackSys, after.StackSys), took
}

// peak is what a function takes at a time, as the kernel sees it.
func peak(f func()) (memory uint64, took time.Duration) {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return cost(f)
	}
	before := statusBytes("VmRSS")
	_, took = cost(f)
	return statusBytes("VmHWM") - min(before, statusBytes("VmHWM")), took
}

func statusBytes(name string) uint64 {
	text, _ := os.ReadFile("/proc/self/status") // without it nothing is measured, and the first cost stands
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseUint(strings.Fields(value)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
