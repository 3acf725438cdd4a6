// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// Now stamps the present moment. CLOCK_MONOTONIC stands still while the machine is suspended, as CPU counters do.
func Now() procstats.Stamp {
	var ts unix.Timespec
	// clock_gettime(2) fails only for an unknown clock or a bad pointer, and this is neither.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return procstats.Stamp{Mono: time.Duration(ts.Nano()), Wall: time.Now()}
}

// SinceBoot returns the time since the machine was booted, CLOCK_BOOTTIME: the clock of /proc/PID/stat starttime.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // fails no more than the one above
	return time.Duration(ts.Nano())
}
