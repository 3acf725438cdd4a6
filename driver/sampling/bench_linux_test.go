// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package sampling_test

import (
	"testing"
	"time"
)

// BenchmarkTick reads a task as a tick does. One moves: its totals are read, with the newest process rows, and handed
// over. Of one that sleeps a tick reads what tells that.
func BenchmarkTick(b *testing.B) {
	for name, script := range map[string]string{"moves": "while :; do :; done", "sleeps": "exec sleep 1000"} {
		b.Run(name, func(b *testing.B) {
			k := run(b, script, nil)
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
		})
	}
}
