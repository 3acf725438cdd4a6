// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"testing"
	"time"
)

// BenchmarkTick reads a task that moves, as a tick does: its totals, with the newest process rows, and the handover.
func BenchmarkTick(b *testing.B) {
	k := run(b, "while :; do :; done", nil)
	loop := newLoop(b)
	of := k.task()
	of.RowInterval = 10 * time.Second
	if _, err := loop.Open(b.Context(), of, time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if loop.Sample(of.ID, 0, false) == nil {
			b.Fatal("the task has ended")
		}
	}
}
