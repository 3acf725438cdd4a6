// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchdog holds that a stream is called silent when its patience is over, and that what has waited while this
// process was stopped comes first.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, barked := time.Now(), make(chan time.Duration, 1)
		w := newWatchdog(10*time.Second, func() { barked <- time.Since(began) })
		defer w.Stop()
		if at := <-barked; at != 10*time.Second {
			t.Errorf("called silent after %s, want 10 s", at)
		}
		w.reset(10 * time.Second)
		w.Reset(0) // as after a stop: the time is over when the process goes on
		synctest.Wait()
		w.reset(5 * time.Second) // by what has waited
		if at := <-barked; at != 15*time.Second {
			t.Errorf("called silent after %s, want 15 s", at)
		}
	})
}
