// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// TestNow: other processes, and the kernel, read the same clock.
func TestNow(t *testing.T) {
	monotonic := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	const slack = time.Millisecond // half of what passes between two readings at start
	for range 1000 {
		before, now, after := monotonic(), kernel.Now(), monotonic()
		if now.Mono < before-slack || now.Mono > after+slack {
			t.Fatalf("stamped %s, want from %s to %s", now.Mono, before, after)
		}
		if off := time.Since(now.Wall); off < 0 || off > time.Minute {
			t.Fatalf("the wall clock is %s off", off)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		_ = kernel.Now()
	}
}
