// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns holds that starts wait for each other, but not for one that hangs, and not after they were given up.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(turns, 2)
		began := time.Now()
		taken := func(want time.Duration) func() {
			t.Helper()
			done := s.take(t.Context())
			if waited := time.Since(began); waited != want {
				t.Fatalf("a turn after %s, want %s", waited, want)
			}
			return done
		}
		first, hangs := taken(0), taken(0)
		time.AfterFunc(time.Second, first)
		second := taken(time.Second)
		time.AfterFunc(turnLimit, second)
		third := taken(turnLimit) // of the one that hangs
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		s.take(cancelled)()
		hangs() // it ends after all, and gives nothing back again
		fourth := taken(time.Second + turnLimit)
		third()
		fourth()
		if len(s) != 0 {
			t.Errorf("%d turns are still taken", len(s))
		}
	})
}
