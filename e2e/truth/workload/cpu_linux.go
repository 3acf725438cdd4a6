// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

func clock(id int32) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0, fmt.Errorf("clock_gettime: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// burn keeps a CPU busy until the clock says so much.
func burn(id int32, until time.Duration) error {
	seed := uint64(until) | 1
	for {
		now, err := clock(id)
		if err != nil || now >= until {
			return err
		}
		for range 5000 {
			seed ^= seed << 13
			seed ^= seed >> 7
			seed ^= seed << 17
		}
		runtime.KeepAlive(seed)
	}
}

// burnThread keeps a CPU busy for this long on a thread of its own, by the thread's clock.
func burnThread(d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, err := clock(unix.CLOCK_THREAD_CPUTIME_ID)
	if err != nil {
		return err
	}
	return burn(unix.CLOCK_THREAD_CPUTIME_ID, start+d)
}

// threads keeps two threads busy for a second each.
func (w *workload) threads() error {
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { ended <- burnThread(time.Second) }()
	}
	return errors.Join(<-ended, <-ended)
}

// short is over before a sample can be taken.
func (w *workload) short() error {
	return burn(unix.CLOCK_PROCESS_CPUTIME_ID, 30*time.Millisecond)
}

// sleep uses next to nothing for a second.
func (w *workload) sleep() error {
	time.Sleep(time.Second)
	return nil
}
