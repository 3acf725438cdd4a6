// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// zero is the moment at which CLOCK_MONOTONIC was 0, on Go's monotonic clock. That is the same clock (runtime, nanotime on Linux)
// with a zero that it does not tell; it is read without a system call, vdso(7), which x/sys/unix needs for each time.
//
//nolint:gochecknoglobals // written once, at start
var zero = findZero()

// findZero reads both clocks. Of several readings the one counts in which the least time passed from first to last.
func findZero() time.Time {
	var zero time.Time
	shortest := time.Duration(math.MaxInt64)
	for range 3 {
		var ts unix.Timespec
		before := time.Now()
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails only for an unknown clock or a bad pointer: clock_gettime(2)
		if took := time.Since(before); took < shortest {
			zero, shortest = before.Add(took/2-time.Duration(ts.Nano())), took
		}
	}
	return zero
}

// Now stamps the present moment. CLOCK_MONOTONIC stands still while the machine is suspended, as CPU counters do.
func Now() procstats.Stamp {
	now := time.Now()
	return procstats.Stamp{Mono: now.Sub(zero), Wall: now}
}

// SinceBoot returns the time since the machine was booted, CLOCK_BOOTTIME: the clock of /proc/PID/stat starttime.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // fails no more than that of the other clock
	return time.Duration(ts.Nano())
}
