// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"runtime"
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
