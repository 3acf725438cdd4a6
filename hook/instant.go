// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"iter"
	"time"
)

// Instant is a moment that a later run of the agent can tell the distance from. The wall clock alone cannot: it is set
// by hours, and it is wrong until a machine has found a time server. It is a label, and counts over a reboot only.
type Instant struct {
	Wall time.Time
	// Boot names the boot of the machine, as /proc/sys/kernel/random/boot_id does; empty if it is not known.
	Boot string `json:",omitempty"`
	// Up is the time since that boot, suspended times included: CLOCK_BOOTTIME.
	Up time.Duration `json:",omitempty"`
}

// IsZero reports whether nothing is known of the instant.
func (i Instant) IsZero() bool { return i.Wall.IsZero() && i.Boot == "" }

// Since returns the time from an earlier instant to this one; never less than 0. After a reboot it is that of the wall
// clock.
func (i Instant) Since(earlier Instant) time.Duration {
	if i.Boot != "" && i.Boot == earlier.Boot {
		return max(0, i.Up-earlier.Up)
	}
	return max(0, i.Wall.Round(0).Sub(earlier.Wall.Round(0)))
}

// After reports whether an instant came after another.
func (i Instant) After(other Instant) bool {
	if i.Boot != "" && i.Boot == other.Boot {
		return i.Up > other.Up
	}
	return i.Wall.After(other.Wall)
}

// Here returns an instant of an earlier boot as one of this boot, so that the wall clock cannot change its distance any
// more. now is the present; the distance is at most longest.
func (i Instant) Here(now Instant, longest time.Duration) Instant {
	if i.IsZero() || now.Boot == "" || i.Boot == now.Boot {
		return i
	}
	return Instant{Wall: i.Wall, Boot: now.Boot, Up: now.Up - min(now.Since(i), longest)}
}

// Deadline is a delay that a later run of the agent goes on with.
type Deadline struct {
	From  Instant
	Delay time.Duration
}

// IsZero reports whether there is no deadline.
func (d Deadline) IsZero() bool { return d.From.IsZero() }

// Left returns what is left of the delay: between 0 and all of it, whatever the wall clock says.
func (d Deadline) Left(now Instant) time.Duration {
	return min(max(0, d.Delay-now.Since(d.From)), max(0, d.Delay))
}

// Waits returns the waits that a delay is made of. The clock of timers stands still while the machine is suspended, so
// each is short, and another clock says what is left; one that is set back prolongs nothing.
func Waits(now func() Instant, delay time.Duration) iter.Seq[time.Duration] {
	const longest = 30 * time.Second
	return func(yield func(time.Duration) bool) {
		deadline := Deadline{From: now(), Delay: delay}
		for left := delay; left > 0 && yield(min(left, longest)); {
			left = min(left-longest, deadline.Left(now()))
		}
	}
}
