// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package reader

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
		r := Open(Options{
			Target: source.Target{
				FS: kernel.HostFS(), Roots: func() []int { return nil },
				Reaped: func() source.Reaped {
					if ended {
						return source.Reaped{CPU: time.Second, Processes: 1}
					}
					<-proceed
					return source.Reaped{}
				},
			},
			Selection: procstats.Select(procstats.RusageCPU), Pacer: pace.New(0, nil, nil),
			Packets: network.Absent(procstats.Selection{}, ""),
		})
		var readers sync.WaitGroup
		readers.Go(func() { r.Get(0, true) })
		synctest.Wait()
		ended = true
		<-time.After(time.Millisecond) // of the bubble's clock, which stands still otherwise
		var final *procstats.Sample
		readers.Go(func() { final = r.Whole() })
		synctest.Wait()
		close(proceed)
		readers.Wait()
		if cpu, ok := final.Task.Number(procstats.RusageCPU); cpu != 1 || !ok {
			t.Errorf("the final sample has %v s of CPU, want what was read after the end", cpu)
		}
		must(t, r.Close(final))
	})
}
