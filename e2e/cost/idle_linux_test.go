// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cost

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"
)

const (
	// quiet is how long nothing at all may happen in an idle executor.
	quiet = 30 * time.Second
	// watched is how long it is watched: beyond the first wake of the Go runtime's monitor, which sleeps for a minute
	// at most (runtime.sysmon), and collects garbage every other time.
	watched = 75 * time.Second
	// starting is when the start is over at the latest.
	starting = 5 * time.Second
)

// activity is what a process has done so far.
type activity struct {
	switches map[string]int
	reads    int // read(2) and its kin, of any file
	writes   int
}

func look(t *testing.T, pid int) activity {
	t.Helper()
	io := procNumbers(t, pid, "io")
	return activity{switches: switches(t, pid), reads: io["syscr"], writes: io["syscw"]}
}

func (a activity) equal(b activity) bool {
	return a.reads == b.reads && a.writes == b.writes && maps.Equal(a.switches, b.switches)
}

func (a activity) since(b activity) string {
	n := 0
	for thread, count := range a.switches {
		n += count - b.switches[thread]
	}
	return fmt.Sprintf("%d context switches, %d reads, %d writes", n, a.reads-b.reads, a.writes-b.writes)
}

// TestIdle holds that an executor without readers does nothing: no read of /proc or of a cgroup file, and no context
// switch, but for the Go runtime's own monitor once a minute. One has a caller who waits for the task's end and for
// events, as a driver does; the other's caller has left.
func TestIdle(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes more than a minute")
	}
	p := place(t)
	p.Parallel = true
	waited, left := run(t, p, "waited", "exec sleep 1000"), run(t, p, "left", "exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, _, err := waited.Wait(ctx); ctx.Err() == nil {
			t.Errorf("the task has ended: %v", err)
		}
	})
	waiting.Go(func() { events(ctx, t, waited) })
	defer waiting.Wait()
	defer cancel()
	left.leave(t)

	began := time.Now()
	all := []*watcher{
		newWatcher(t, "with a caller that waits", waited.pid()),
		newWatcher(t, "without a caller", left.pid()),
	}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < watched {
		<-tick.C
		for _, w := range all {
			w.look(t)
		}
	}
	for _, w := range all {
		w.judge(t)
	}
}

// events takes events until ctx ends.
func events(ctx context.Context, t *testing.T, e *executor) {
	stream, err := e.Events(ctx)
	for err == nil {
		_, err = stream.Recv()
	}
	if ctx.Err() == nil {
		t.Errorf("events: %v", err)
	}
}

// watcher follows what an idle process does.
type watcher struct {
	name  string
	pid   int
	began time.Time
	// settled is what was done when the start was over, last what was done so far.
	settled, last activity
	// woke is when something was done; longest is the longest time between two of these.
	woke    time.Time
	longest time.Duration
}

func newWatcher(t *testing.T, name string, pid int) *watcher {
	now := time.Now()
	w := &watcher{name: name, pid: pid, began: now, woke: now, last: look(t, pid)}
	w.settled = w.last
	return w
}

func (w *watcher) look(t *testing.T) {
	now := look(t, w.pid)
	since := time.Since(w.woke)
	if now.equal(w.last) {
		w.longest = max(w.longest, since)
		return
	}
	at := time.Since(w.began)
	t.Logf("%s: after %5.1f s: %s", w.name, at.Seconds(), now.since(w.last))
	if at < starting {
		w.settled = now
	}
	w.last, w.woke = now, time.Now()
}

func (w *watcher) judge(t *testing.T) {
	t.Logf("%s: nothing happened for %s; in all, in %s after the start: %s", w.name,
		w.longest.Round(time.Second), (watched - starting), w.last.since(w.settled))
	if w.longest < quiet {
		t.Errorf("%s: the longest quiet time is %s, want at least %s", w.name, w.longest, quiet)
	}
	if w.last.reads != w.settled.reads {
		t.Errorf("%s: %d reads without a reader", w.name, w.last.reads-w.settled.reads)
	}
}

func (f *fleet) activities() map[int]activity {
	f.t.Helper()
	all := make(map[int]activity, len(f.executors))
	for _, pid := range f.executors {
		all[pid] = look(f.t, pid)
	}
	return all
}

// housekeeping is how often Go's runtime wakes an idle process at most.
const housekeeping = time.Minute

// asleep holds that the executors of tasks with a cgroup do nothing while their tasks are published and nobody looks at
// them: no read, and no wake-up but that of the runtime's own monitor, once a minute.
func (f *fleet) asleep(before map[int]activity, over time.Duration) {
	f.t.Helper()
	woken := 0
	for pid, now := range f.activities() {
		if !now.equal(before[pid]) {
			woken++
		}
		if now.reads != before[pid].reads {
			f.t.Errorf("executor %d has read: %s", pid, now.since(before[pid]))
		}
	}
	f.t.Logf("publishing: %d of %d executors were woken in %s", woken, len(f.executors), over)
	if share := min(1, 1.5*over.Seconds()/housekeeping.Seconds()); float64(woken) > 2+share*float64(len(f.executors)) {
		f.t.Errorf("the runtime wakes each once a minute, and nothing else may")
	}
}
