// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// anchor is one moment on Go's clock, whose monotonic part is CLOCK_MONOTONIC with a zero that it keeps to itself, and on the
// kernel's.
type anchor struct {
	at   time.Time
	mono time.Duration
}

// newAnchor reads the kernel's clock between two readings of Go's. A thread that loses the CPU in between tries again.
func newAnchor() (best anchor) {
	const tries, near = 10, time.Microsecond
	least := time.Duration(math.MaxInt64)
	for try := 0; try < tries && least > near; try++ {
		before := time.Now()
		var ts unix.Timespec
		// clock_gettime(2) fails only for an unknown clock or a bad pointer, and this is neither.
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		if took := time.Since(before); took < least {
			best, least = anchor{at: before.Add(took / 2), mono: time.Duration(ts.Nano())}, took
		}
	}
	return best
}

// start anchors Now.
//
//nolint:gochecknoglobals // written once, at start
var start = newAnchor()

// Now stamps the present moment. CLOCK_MONOTONIC stands still while the machine is suspended, as CPU counters do. Both clocks are
// read at once, and without a system call: every reading has a stamp.
func Now() procstats.Stamp {
	now := time.Now()
	return procstats.Stamp{Mono: start.mono + now.Sub(start.at), Wall: now}
}

// SinceBoot returns the time since the machine was booted, CLOCK_BOOTTIME: the clock of /proc/PID/stat starttime.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // fails no more than that of newAnchor
	return time.Duration(ts.Nano())
}
