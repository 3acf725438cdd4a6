// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package reader

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// ExecutorCPU reads the CPU time of an executor without waking it; false if it is gone.
func ExecutorCPU(pid int) (cpu time.Duration, ok bool) {
	cpu, err := kernel.ProcessCPU(pid)
	return cpu, err == nil
}

// threadCPU is the CPU time of this thread so far, clock_gettime(2).
func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
