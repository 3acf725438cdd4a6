// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"testing"
	"time"
)

func TestUntilTick(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name                 string
		now, interval, phase time.Duration
		want                 time.Duration
	}{
		{"between two", 10*s + 300*ms, s, 0, 700 * ms},
		{"on a tick", 10 * s, s, 0, s},
		{"fired early", 10*s - 1*ms, s, 0, s + 1*ms},
		{"fired late", 10*s + 1*ms, s, 0, 999 * ms},
		{"before its phase", 10 * s, s, 250 * ms, 250 * ms},
		{"after its phase", 10*s + 300*ms, s, 250 * ms, 950 * ms},
		{"in its phase, early", 10*s + 249*ms, s, 250 * ms, s + 1*ms},
		{"before the first interval of the clock", 10 * ms, s, 750 * ms, 740 * ms},
	} {
		if got := UntilTick(c.now, c.interval, c.phase); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
