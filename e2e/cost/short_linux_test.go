// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestShort prints what commands take that last no time, in turns: CPU time with that of all descendants, and time. It
// asserts nothing but that they work.
func TestShort(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv(roundsVariable))
	if err != nil || rounds < 1 {
		t.Skipf("%s says how many rounds", roundsVariable)
	}
	place := place(t)
	commands := [][]string{
		{"true"},
		{rig.Tacho(), "version"},
		{rig.Tacho(), "run", "-q", "--no-files", "--", "true"},
		{rig.Tacho(), "run", "-q", "--output-dir", place.Out, "--", "true"},
	}
	took := make([][][2]float64, len(commands))
	for range rounds {
		for i, command := range commands {
			cmd := place.Command(t.Context(), command[0], command[1:]...)
			began := time.Now()
			testkit.Must(t, cmd.Run())
			usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
			took[i] = append(took[i], [2]float64{cpu.Seconds() * 1e3, time.Since(began).Seconds() * 1e3})
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for i, command := range commands {
		median := medians(took[i])
		fmt.Fprintf(w, "%s\t%.1f ms of CPU time\t%.1f ms\n", strings.Join(command[min(1, len(command)-1):], " "), median[0], median[1])
	}
	testkit.Must(t, w.Flush())
	t.Logf("medians of %d rounds:\n%s", rounds, table.String())
}

// TestCold prints the CPU time of an executor for each process and sample, of processes that sleep: once a second, so
// that nothing is in the caches of the CPU. The first report has the start and the first look.
func TestCold(t *testing.T) {
	if os.Getenv(roundsVariable) == "" {
		t.Skipf("it takes half a minute for each size: %s is not set", roundsVariable)
	}
	for _, processes := range []int{1, 100, 1000} {
		place := place(t)
		script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); sleep 23 & done; wait", processes)
		out := rig.Capture(t, place.Run(t.Context(), "-q", "--interval", "1s", "--report-interval", "10s", "--", "sh", "-c", script))
		if out.Code != 0 {
			t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
		}
		before := 0.0
		for _, u := range rig.Reports(t, place.TheRun(t))[:2] {
			cpu := *u.Measurements[procstats.ExecutorCPU.String()].Last
			t.Logf("%d processes, %d samples: %.1f ms, %.1f µs a process and sample",
				processes, u.Samples, 1e3*(cpu-before), 1e6*(cpu-before)/float64(int64(processes)*u.Samples))
			before = cpu
		}
	}
}
