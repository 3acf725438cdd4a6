// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driver

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestConfirmationWatch holds when the tasks of a host are ended that it does not know of: a minute after it connected.
func TestConfirmationWatch(t *testing.T) {
	for name, test := range map[string]struct {
		connects, ends []time.Duration // after the begin
	}{
		"never": {nil, nil},
		"once":  {[]time.Duration{5 * time.Second}, []time.Duration{65 * time.Second, time.Hour + 5*time.Second}},
		"twice": {[]time.Duration{0, 2 * time.Minute}, []time.Duration{time.Minute, 3 * time.Minute, 62 * time.Minute}},
		"again in the minute": {
			[]time.Duration{0, 30 * time.Second}, []time.Duration{time.Minute, 90 * time.Second, time.Hour + 30*time.Second},
		},
		"again and again": {
			[]time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second},
			[]time.Duration{time.Minute, 90 * time.Second, time.Hour + 30*time.Second},
		},
		"again before it is forgotten": {
			[]time.Duration{0, 59 * time.Minute}, []time.Duration{time.Minute, time.Hour, 119 * time.Minute},
		},
		"the driver ends first": {[]time.Duration{2*time.Hour - 30*time.Second}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				var ends []time.Duration
				w := make(confirmations, 1)
				var watching sync.WaitGroup
				watching.Go(func() {
					w.watch(ctx, func(_ context.Context, before time.Time, forget bool) bool {
						ends = append(ends, time.Since(began))
						want := confirmLimit
						if forget {
							want = forgetLimit
						}
						if age := time.Since(before); age != want {
							t.Errorf("called %s after the connection", age)
						}
						return false
					})
				})
				for _, at := range test.connects {
					pause(ctx, time.Until(began.Add(at)))
					w.connected()
					synctest.Wait()
				}
				watching.Wait()
				testkit.Diff(t, "ends", test.ends, ends)
			})
		})
	}
}

// TestConfirmationWatchUnclaimed looks for a task that runs and was not recovered each minute, as long as it runs.
func TestConfirmationWatchUnclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		var forgets int
		var last time.Duration
		w := make(confirmations, 1)
		w.connected()
		w.watch(ctx, func(_ context.Context, _ time.Time, forget bool) bool {
			last = time.Since(began)
			if forget {
				forgets++
			}
			return last < 70*time.Minute
		})
		testkit.Equal(t, last, 70*time.Minute, "last look")
		testkit.Equal(t, forgets, 11, "looks that forget, of the last minutes")
	})
}
