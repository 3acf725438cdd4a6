// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/hook"
)

// TestDeadline holds that a deadline is as far away as it was, however the wall clock is set, and after a reboot no
// farther than its delay.
func TestDeadline(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Second
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	from := hook.Instant{Wall: at, Boot: "this", Up: time.Hour}
	for _, step := range []time.Duration{
		0, 6 * time.Hour, -6 * time.Hour, -24 * time.Hour, 13 * 365 * 24 * time.Hour, -13 * 365 * 24 * time.Hour,
	} {
		for passed, left := range map[time.Duration]time.Duration{
			0: delay, 5 * time.Second: 15 * time.Second, delay: 0, time.Hour: 0,
		} {
			d := hook.Deadline{From: from, Delay: delay}
			now := hook.Instant{Wall: at.Add(passed + step), Boot: "this", Up: time.Hour + passed}
			if got := d.Left(now); got != left {
				t.Errorf("clock set by %s, %s later: %s left, want %s", step, passed, got, left)
			}
			for _, boot := range []string{"next", ""} {
				now.Boot, now.Up = boot, time.Second
				if got := d.Left(now); got < 0 || got > delay || step == 0 && got != left {
					t.Errorf("boot %q, clock set by %s, %s later: %s left", boot, step, passed, got)
				}
			}
		}
	}
}

// TestInstantHere holds that the wall clock of another boot is asked once.
func TestInstantHere(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old := hook.Instant{Wall: at, Boot: "before", Up: time.Hour}
	for step, age := range map[time.Duration]time.Duration{
		-time.Hour: 0, time.Minute: time.Minute, 13 * 365 * 24 * time.Hour: time.Hour,
	} {
		now := hook.Instant{Wall: at.Add(step), Boot: "this", Up: time.Second}
		here := old.Here(now, time.Hour)
		later := hook.Instant{Wall: at.Add(-99 * time.Hour), Boot: "this", Up: 11 * time.Second}
		if got := later.Since(here); got != age+10*time.Second {
			t.Errorf("clock set by %s: %s old, want %s", step, got, age+10*time.Second)
		}
	}
}
