// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads a clock that every kernel has.
func clock(id int32) time.Duration {
	var t unix.Timespec
	check(os.NewSyscallError("clock_gettime", unix.ClockGettime(id, &t)))
	return time.Duration(t.Nano())
}

// countedCPU returns what the kernel has counted for the cgroup that tacho made for this process, in seconds; nil if it
// made none. lines are those of /proc/self/cgroup.
func countedCPU(lines []string) *float64 {
	for _, line := range lines {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 || !strings.Contains(fields[2], "/tacho-") {
			continue
		}
		if data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", fields[1], fields[2], "cpuacct.usage")); err == nil {
			return new(float64(value(strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64))) / 1e9)
		}
		for _, mount := range []string{"unified", ""} {
			data, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", mount, fields[2], "cpu.stat"))
			if text, ok := strings.CutPrefix(string(data), "usage_usec "); ok && err == nil && fields[1] == "" {
				text, _, _ = strings.Cut(text, "\n")
				return new(float64(value(strconv.ParseInt(text, 10, 64))) / 1e6)
			}
		}
	}
	return nil
}

// burn keeps a CPU busy until the clock says so much.
func burn(id int32, until time.Duration) {
	seed := uint64(until) | 1
	for clock(id) < until {
		for range 5000 {
			seed ^= seed << 13
			seed ^= seed >> 7
			seed ^= seed << 17
		}
		runtime.KeepAlive(seed)
	}
}

// burnThread keeps a CPU busy for this long on a thread of its own, by the thread's clock.
func burnThread(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	burn(unix.CLOCK_THREAD_CPUTIME_ID, clock(unix.CLOCK_THREAD_CPUTIME_ID)+d)
}

func burnThreads(count int, d time.Duration) {
	var threads sync.WaitGroup
	for range count {
		threads.Go(func() { burnThread(d) })
	}
	threads.Wait()
}

// threads keeps two threads busy for a second each.
func (w *workload) threads() { burnThreads(2, time.Second) }

// short is over before a sample can be taken.
func (w *workload) short() { burn(unix.CLOCK_PROCESS_CPUTIME_ID, 30*time.Millisecond) }

// sleep uses next to nothing for a second.
func (w *workload) sleep() { time.Sleep(time.Second) }
