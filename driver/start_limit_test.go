// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestStartLimit holds that starts wait for each other, but not for one that hangs, and not after they were given up.
func TestStartLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(startLimit, 2)
		began := time.Now()
		taken := func(want time.Duration) func() {
			t.Helper()
			done := s.acquire(t.Context())
			if waited := time.Since(began); waited != want {
				t.Fatalf("started after %s, want %s", waited, want)
			}
			return done
		}
		first, hangs := taken(0), taken(0)
		time.AfterFunc(time.Second, first)
		second := taken(time.Second)
		time.AfterFunc(slowStart, second)
		third := taken(slowStart) // of the one that hangs
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		s.acquire(cancelled)()
		hangs() // it ends after all, and gives nothing back again
		fourth := taken(time.Second + slowStart)
		third()
		fourth()
		testkit.Equal(t, len(s), 0, "starts still counted")
	})
}
