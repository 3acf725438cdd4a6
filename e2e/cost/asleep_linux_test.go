// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"testing"
	"time"
)

// housekeeping is how often Go's runtime wakes an idle process at most.
const housekeeping = time.Minute

// TestExecutorsSleepWhilePublishing holds that the executors of tasks with a cgroup do nothing for a minute while their tasks are
// published and nobody looks at them: no read, and no wake-up but the runtime's own. TestAgent does so for some seconds.
func TestExecutorsSleepWhilePublishing(t *testing.T) {
	if streamingTime(t) < housekeeping {
		t.Skipf("%s is below %s; TestAgent looks at a shorter time", timeVariable, housekeeping)
	}
	f := newFleet(t, 50, sleepers)
	time.Sleep(12 * time.Second) // every executor was asked once what it has reaped
	began, before := time.Now(), f.activities()
	last, woken := before, map[int]int{}
	for time.Since(began) < housekeeping {
		time.Sleep(500 * time.Millisecond)
		now := f.activities()
		for pid, a := range now {
			if !a.equal(last[pid]) {
				woken[pid]++
			}
		}
		last = now
	}
	most := 0
	for pid, n := range woken {
		most = max(most, n)
		if n > 1 || last[pid].reads != before[pid].reads {
			t.Errorf("executor %d was woken %d times: %s", pid, n, last[pid].since(before[pid]))
		}
	}
	t.Logf("publishing to %d executors for %s: %d of them were woken, at most %d times, which is the runtime's monitor; no read",
		len(f.executors), time.Since(began).Round(time.Second), len(woken), most)
}

func (f *fleet) activities() map[int]activity {
	f.t.Helper()
	all := make(map[int]activity, len(f.executors))
	for _, pid := range f.executors {
		all[pid] = look(f.t, pid)
	}
	return all
}

// asleep holds that hardly an executor was woken since it was looked at: only the runtime's monitor does, once a minute.
func (f *fleet) asleep(before map[int]activity, over time.Duration) {
	f.t.Helper()
	woken := 0
	for pid, now := range f.activities() {
		if !now.equal(before[pid]) {
			woken++
		}
	}
	f.t.Logf("publishing: %d of %d executors were woken in %s", woken, len(f.executors), over)
	if share := min(1, 1.5*over.Seconds()/housekeeping.Seconds()); float64(woken) > 2+share*float64(len(f.executors)) {
		f.t.Errorf("the runtime wakes each once a minute, and nothing else may")
	}
}
