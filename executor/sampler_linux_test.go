// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
	"github.com/tachograph/tacho/procstats/network"
	"github.com/tachograph/tacho/procstats/source"
	"github.com/tachograph/tacho/procstats/source/pace"
)

// TestFinalSampleIsNew ends a task while its numbers are being read for somebody else, who has read them in part.
func TestFinalSampleIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, proceed := false, make(chan struct{})
		s := newSampler(source.Target{
			FS: kernel.HostFS(), Roots: func() []int { return nil },
			Reaped: func() source.Reaped {
				if ended {
					return source.Reaped{CPU: time.Second, Processes: 1}
				}
				<-proceed
				return source.Reaped{}
			},
		}, procstats.Select(procstats.RusageCPU), pace.New(0, processCPU, func(string) {}), network.Absent(procstats.Selection{}, ""))
		var readers sync.WaitGroup
		readers.Go(func() { s.get(0, true) })
		synctest.Wait()
		ended = true
		<-time.After(time.Millisecond) // of the bubble's clock, which stands still otherwise
		var final *procstats.Sample
		readers.Go(func() { final = s.getFinal() })
		synctest.Wait()
		close(proceed)
		readers.Wait()
		if cpu, ok := final.Task.Number(procstats.RusageCPU); cpu != 1 || !ok {
			t.Errorf("the final sample has %v s of CPU, want what was read after the end", cpu)
		}
		if err := s.close(final); err != nil {
			t.Error(err)
		}
	})
}

// TestTickPhase holds that executors started one after the other, a few PIDs apart, are spread over all phases.
func TestTickPhase(t *testing.T) {
	const interval, executors = time.Second, 400
	for step := 1; step <= 32; step++ {
		count := map[time.Duration]int{}
		for i := range executors {
			count[tickPhase(1000+i*step, interval)]++
		}
		if len(count) != tickPhases {
			t.Errorf("PIDs %d apart: phases %v, want %d of them", step, count, tickPhases)
		}
		for phase, n := range count {
			if phase < 0 || phase >= interval || n < executors/tickPhases/2 || n > executors/tickPhases*2 {
				t.Errorf("PIDs %d apart: %d of %d executors at %s", step, n, executors, phase)
			}
		}
	}
}
