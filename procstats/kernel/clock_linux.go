// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
)

// zero is the moment at which CLOCK_MONOTONIC was 0, on Go's monotonic clock. That is the same clock (runtime,
// nanotime on Linux) with a zero that it does not tell; it is read without a system call, vdso(7), which x/sys/unix
// needs for each time.
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

// processCPUClock returns the id of a process's CPU clock as clock_getcpuclockid(3) makes it: the PID's complement
// shifted left by three, and CPUCLOCK_SCHED (2), which counts scheduled time and not ticks. PIDs are below 2^22.
func processCPUClock(pid int) int32 {
	const cpuclockSched = 2
	return ^int32(pid)<<3 | cpuclockSched
}

// ProcessCPU reads the CPU time of all threads a process has or had, zombies included, in nanoseconds. EINVAL says
// that there is no such process, or that there are no such clocks (sandboxes). A thread that is running is counted up
// to its last tick or switch: another process's clock lags by a few milliseconds while it is busy.
//
// The clock goes by the bare PID: only a read through the process's own descriptor, afterwards, proves whose it was.
func ProcessCPU(pid int) (time.Duration, error) {
	var ts unix.Timespec
	// Raw: the call cannot sleep, and announcing it to the scheduler costs a tenth of it.
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(processCPUClock(pid)), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, errno
	}
	return time.Duration(ts.Nano()), nil
}

// CompareMemory returns 0 where two processes use one and the same address space, as a parent and the child that it has
// made with vfork(2) do until that executes a program, and otherwise how they are ordered: kcmp(2). It wants the
// permission to trace both; it is 0 also where the kernel does not say (CONFIG_KCMP).
func CompareMemory(a, b int) int {
	const kcmpVM = 1
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	switch {
	case errno != 0 || order == 0:
		return 0
	case order == 1:
		return -1
	}
	return 1
}

// Suspended returns how long the machine was suspended since it was booted, to about a millisecond: CLOCK_MONOTONIC
// leaves that out.
func Suspended() (suspended time.Duration) {
	shortest := time.Duration(math.MaxInt64)
	for range 5 {
		before := time.Now()
		sinceBoot := SinceBoot()
		if took := time.Since(before); took < shortest {
			suspended, shortest = sinceBoot-before.Add(took/2).Sub(zero), took
		}
		if shortest < time.Millisecond {
			break
		}
	}
	return suspended
}
