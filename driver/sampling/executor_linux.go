// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// executorCPU reads the CPU time of an executor without waking it; false if it is gone.
func executorCPU(pid int) (seconds float64, ok bool) {
	cpu, err := kernel.ProcessCPU(pid)
	return cpu.Seconds(), err == nil
}

// openFiles is how many files this process may have open.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30)) //nolint:gosec // bounded
}

// resetPeaks makes the memory peaks of a task's cgroup count from now on, for the descriptors that it returns.
func resetPeaks(group procstats.Cgroup) map[string]*os.File {
	return (&cgroup.Group{Cgroup: group}).ResetPeaks()
}

// threadCPU is the CPU time of this thread so far, clock_gettime(2).
func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
