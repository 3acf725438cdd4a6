// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestCrowd measures commands of thousands of sleeping processes: what the executor takes once all run, and how long
// nothing was read at most. The totals do not wait for what it took to read the processes.
func TestCrowd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	const longestGap, share = 4 * time.Second, 0.03 // 2 % of which are the sampling budget; a busy machine is late
	crowds := []int{100, 1000, 5000}
	if os.Getenv(roundsVariable) == "" {
		crowds = crowds[2:] // each takes half a minute
	}
	for _, processes := range crowds {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			place := place(t)
			// They end one after the other: a host that kills thousands at once has no time for anybody else.
			script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); sleep 2$((i%%10)).$i & done; wait", processes)
			out := rig.Capture(t, place.Run(t.Context(), "-q", "--report-interval", "10s", "--", "sh", "-c", script))
			if out.Code != 0 {
				t.Fatalf("exit code %d: %s", out.Code, out.Stderr)
			}
			entry := place.TheRun(t)
			var took, at [2]float64
			reports := rig.Reports(t, entry)
			for i, u := range reports[:2] { // all run, and none has ended
				took[i], at[i] = *u.Measurements[procstats.ExecutorCPU.String()].Last, u.ToMono
			}
			got := (took[1] - took[0]) / (at[1] - at[0])
			gap := time.Duration(entry.Record.LargestGap * float64(time.Second))
			t.Logf("%d processes: %.2f %% of a core, %d samples, the longest time without one %s, %v",
				processes, 100*got, entry.Record.Samples, gap.Round(10*time.Millisecond), entry.Record.Notes)
			if gap > longestGap || got > share {
				t.Errorf("want at most %s and %.0f %%", longestGap, 100*share)
			}
			testkit.Equal(t, len(entry.Record.Processes.Rows) > 0, true, "the record has processes")
		})
	}
}
