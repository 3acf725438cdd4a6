// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

const (
	wantedVariable = "TACHO_E2E"
	tachoVariable  = "TACHO_BIN"
)

// Require skips a test where end-to-end tests were not asked for.
func Require(t testing.TB) {
	t.Helper()
	if !wanted() {
		t.Skipf("end-to-end tests were not asked for: set %s=1, or %s to the binary under test", wantedVariable, tachoVariable)
	}
}

func wanted() bool { return os.Getenv(wantedVariable) != "" || os.Getenv(tachoVariable) != "" }

// Random returns random numbers, whose seed it logs.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Eventually waits until something holds, and fails the test if it still does not after this long.
func Eventually(t testing.TB, within time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	return Poll(t, 2*time.Millisecond, within, what, holds)
}

// Poll is Eventually for a condition that costs something, which it looks at less often.
func Poll(t testing.TB, every, within time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !holds() {
		if time.Since(start) > within {
			t.Fatalf("not in %s: %s", within, what)
		}
		<-tick.C
	}
	return time.Since(start)
}
