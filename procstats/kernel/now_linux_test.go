// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNow holds the stamps against the kernel's clock, read just before and after.
func TestNow(t *testing.T) {
	clock := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	const apart = time.Millisecond // the anchor of a machine that is busy
	last := Now().Mono
	for range 1000 {
		before := clock()
		now := Now().Mono
		after := clock()
		if now < before-apart || now > after+apart || now < last {
			t.Fatalf("%s, after %s; the kernel's clock was at %s before and at %s after", now, last, before, after)
		}
		last = now
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
