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
	"github.com/tachograph/tacho/procstats/source"
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
		}, procstats.Select(procstats.RusageCPU))
		var readers sync.WaitGroup
		readers.Go(func() { s.get(0, true) })
		synctest.Wait()
		ended = true
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
		if got := untilTick(c.now, c.interval, c.phase); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
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
