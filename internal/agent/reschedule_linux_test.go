// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

// successor waits for the allocation that replaces another, and returns it running.
func (r *running) successor(id string) *allocation.Allocation {
	r.t.Helper()
	before := r.await(id, "replaced", func(l *allocation.Allocation) bool { return l.Next != "" })
	next := r.await(before.Next, "its replacement running", func(l *allocation.Allocation) bool { return l.Tasks["t"].RunID != "" })
	if next.Previous != id || next.Index != before.Index || next.Name != before.Name {
		r.t.Errorf("%s replaces %q of %s", next.Name, next.Previous, before.Name)
	}
	return next
}

func TestReplaceAlloc(t *testing.T) {
	r := beginAlone(t)
	first := r.sleeping()
	must(t, r.ReplaceAlloc(first.ID))
	r.successor(first.ID)
	r.await(first.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	// What has ended is not replaced, nor is that of a stopped job.
	must(t, r.ReplaceAlloc(first.ID))
	must(t, r.StopJob("test", false, nil))
	testkit.Equal(t, len(r.Snapshot().Allocations), 2, "allocations")
}

func TestReschedule(t *testing.T) {
	r := beginAlone(t)
	first := r.submit(rescheduled(3, 1, "5s"))[0]
	next := r.successor(first.ID)
	r.await(next.ID, "failed", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Failed })
	testkit.Equal(t, len(r.Snapshot().Allocations), 2, "allocations")
}

// TestReplacementWaits has a replacement that waits for a port, over a restart of the agent: it still replaces the
// one that has failed, and counts as an attempt.
func TestReplacementWaits(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	r := begin(t, testConfig(dir))
	port := "network {\nport \"p\" {\nstatic = 3\n}\n}\n"
	first := r.submit(strings.Replace(rescheduled(3, 1, "5s"), "task ", port+"task ", 1))[0]
	r.await(first.ID, "failed", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Failed })
	other := strings.Replace(oneTask("service", "", "exec sleep 1000"), `job "test"`, `job "other"`, 1)
	holder := r.submit(strings.Replace(other, "task ", port+"task ", 1))[0]
	r.eventually("a replacement that waits", func() bool { return len(r.status("test").Unplaced) == 1 })
	r.end(false)
	r = begin(t, testConfig(dir))
	defer r.end(true)
	r.await(holder.ID, "running again", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Running })
	must(t, r.StopJob("other", false, nil))
	next := r.successor(first.ID)
	r.await(next.ID, "failed", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Failed })
	if l := r.await(next.ID, "given up", func(l *allocation.Allocation) bool { return l.Rescheduled.IsZero() }); l.Next != "" {
		t.Errorf("replaced once more, by %s", l.Next)
	}
}

// TestNamedIsThere asks for whatever an event or another allocation names, at once.
func TestNamedIsThere(t *testing.T) {
	r := beginAlone(t)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	readers.Go(func() {
		events := r.Feed().Subscribe(r.Feed().Index())
		for {
			e, err := events.Next(ctx)
			if err != nil {
				return
			}
			now := r.Snapshot()
			if _, err := now.Allocation(e.Key); e.Topic == snapshot.TopicAllocation && err != nil {
				t.Errorf("%s %s: %v", e.Type, e.Key, err)
			}
			if e.Topic == snapshot.TopicJob && !slices.ContainsFunc(now.Jobs, func(j *snapshot.Job) bool { return j.ID == e.Key }) {
				t.Errorf("%s %s: no such job", e.Type, e.Key)
			}
		}
	})
	readers.Go(func() {
		for ctx.Err() == nil {
			for _, l := range r.list() {
				next := l.Persisted().Next
				if _, err := r.find(next); next != "" && err != nil {
					t.Errorf("%s is replaced by %q: %v", l.ID, next, err)
				}
			}
		}
	})
	for i := range 3 {
		text := oneTask("service", "", fmt.Sprintf("exec sleep %d", 1000+i))
		r.submit(strings.Replace(text, "task ", "count = 20\ntask ", 1))
	}
	cancel()
	readers.Wait()
}

// TestUpdateLinks says of an allocation that a new version of its job replaces by which.
func TestUpdateLinks(t *testing.T) {
	r := beginAlone(t)
	first := r.submit(oneTask("service", "", "exec sleep 1000"))[0]
	r.submit(oneTask("service", "", "exec sleep 1001"))
	r.successor(first.ID)
	// One that is gone with the count of its group has no successor, nor has the next of its place a predecessor.
	if _, _, err := r.ScaleJob(t.Context(), "test", "g", 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ScaleJob(t.Context(), "test", "g", 1); err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Snapshot().Allocations {
		if l.Index == 1 && (l.Previous != "" || l.Next != "") {
			t.Errorf("%s: previous %q, next %q", l.Name, l.Previous, l.Next)
		}
	}
	var scaled string
	for _, l := range r.Snapshot().Allocations {
		if l.Index == 1 {
			scaled = l.ID
		}
	}
	if err := r.RestartAlloc(scaled, ""); err == nil || !strings.Contains(err.Error(), "stopping") && !strings.Contains(err.Error(), "not running") {
		t.Errorf("restart of an allocation that is stopped: %v", err)
	}
}

// rescheduled is a job whose task ends with a code, and is replaced so many times in a day, each after a delay.
func rescheduled(code, attempts int, delay string) string {
	text := oneTask("batch", "", fmt.Sprintf("exit %d", code))
	block := fmt.Sprintf("reschedule {\nattempts = %d\ninterval = \"24h\"\ndelay = %q\n}\n", attempts, delay)
	text = strings.Replace(text, "group ", block+"group ", 1)
	return strings.Replace(text, "task ", "restart {\nattempts = 0\n}\ntask ", 1)
}

// TestGarbageLeavesWhatIsToBeReplaced collects garbage while a failed allocation waits for its replacement, which
// would be forgotten with it, or made of nothing.
func TestGarbageLeavesWhatIsToBeReplaced(t *testing.T) {
	r := beginAlone(t)
	first := r.submit(rescheduled(3, 3, "1h"))[0]
	r.await(first.ID, "to be replaced", func(l *allocation.Allocation) bool { return !l.Rescheduled.IsZero() })
	if removed, err := r.CollectGarbage(); err != nil || removed != 0 {
		t.Errorf("%d removed, %v", removed, err)
	}
	must(t, r.StopJob("test", false, nil))
	r.eventually("its removal once nothing replaces it", func() bool {
		removed, err := r.CollectGarbage()
		return err == nil && removed == 1
	})
}

// TestSupersededIsNotReplaced runs a job again, mended, before its failed allocation is replaced: what has completed
// does not run again, nor after a restart of the agent.
func TestSupersededIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	r := begin(t, testConfig(dir))
	first := r.submit(rescheduled(3, 3, "5s"))[0]
	failed := r.await(first.ID, "to be replaced", func(l *allocation.Allocation) bool { return !l.Rescheduled.IsZero() })
	second := r.submit(rescheduled(0, 3, "5s"))[0]
	r.await(second.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	for range 2 {
		r.eventually("an end of waiting", func() bool {
			return time.Now().After(failed.Rescheduled) && r.await(first.ID, "there", func(*allocation.Allocation) bool { return true }).Rescheduled.IsZero()
		})
		testkit.Equal(t, len(r.Snapshot().Allocations), 2, "allocations")
		r.end(false)
		r = begin(t, testConfig(dir))
	}
	r.end(true)
}

// TestReplacementAwaitsPrevious has a task that takes its time to stop: the one that has its port next begins after
// it, whatever was asked for meanwhile.
func TestReplacementAwaitsPrevious(t *testing.T) {
	t.Parallel()
	text := func(env string) string {
		slow := oneTask("service", fmt.Sprintf("kill_signal = \"SIGUSR1\"\nkill_timeout = \"1m\"\nenv {\n A = %q\n}", env),
			"trap '' USR1; touch $NOMAD_ALLOC_DIR/data/up; while ! [ -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done")
		return strings.Replace(slow, "task ", "network {\nport \"p\" {\nstatic = 4\n}\n}\ntask ", 1)
	}
	scale := func(r *running, count int) {
		if _, _, err := r.ScaleJob(t.Context(), "test", "g", count); err != nil {
			t.Error(err)
		}
	}
	for name, meanwhile := range map[string]func(r *running){
		"update":      func(r *running) { r.submit(text("b")) },
		"two updates": func(r *running) { r.submit(text("b")); r.submit(text("c")) },
		"updates and garbage": func(r *running) {
			r.submit(text("b"))
			for _, l := range r.submit(text("c")) {
				if l.DesiredStatus != allocation.DesiredRun && l.Tasks["t"].RunID == "" { // it has not begun
					r.await(l.ID, "ended", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
				}
			}
			if _, err := r.CollectGarbage(); err != nil {
				t.Error(err)
			}
			r.submit(text("d"))
		},
		"stop and start": func(r *running) { _ = r.StopJob("test", false, nil); r.submit(text("a")) },
		"scaled":         func(r *running) { scale(r, 0); scale(r, 1) },
		"stop of its replacement": func(r *running) {
			for _, l := range r.submit(text("b")) {
				if l.DesiredStatus == allocation.DesiredRun {
					testkit.NoError(t, r.ReplaceAlloc(l.ID))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := beginAlone(t)
			old := r.submit(text("a"))[0]
			r.await(old.ID, "running", isRunning) // a stop during the start would kill it
			data := func(id string) string { return filepath.Join(r.host.Dir, id, "alloc", "data") }
			r.eventually("the task's first word", func() bool {
				_, err := os.Stat(filepath.Join(data(old.ID), "up"))
				return err == nil
			})
			meanwhile(r)
			r.await(old.ID, "being stopped", func(l *allocation.Allocation) bool { return l.DesiredStatus != allocation.DesiredRun })
			other := r.submit(strings.Replace(oneTask("service", "", "exec sleep 1000"), `job "test"`, `job "other"`, 1))[0]
			r.await(other.ID, "running", isRunning) // in which time it would have begun
			var newest *allocation.Allocation
			for _, l := range r.Snapshot().Allocations {
				if l.JobID != "test" || l.ID == old.ID {
					continue
				}
				if l.Tasks["t"].RunID != "" || l.Previous == "" {
					t.Errorf("%s started beside its predecessor, as %q; it replaces %q", l.ID, l.Tasks["t"].RunID, l.Previous)
				}
				if l.DesiredStatus == allocation.DesiredRun {
					newest = l
				}
			}
			if newest == nil {
				t.Fatal("nothing takes its place")
			}
			must(t, os.WriteFile(filepath.Join(data(old.ID), "go"), nil, 0o600))
			r.await(newest.ID, "running", func(l *allocation.Allocation) bool { return l.Tasks["t"].RunID != "" })
			must(t, os.WriteFile(filepath.Join(data(newest.ID), "go"), nil, 0o600))
		})
	}
}

// TestCompletedIsNotReplaced stops a batch allocation that completes at the same time: it does not run again.
func TestCompletedIsNotReplaced(t *testing.T) {
	r := beginAlone(t)
	l := r.submit(oneTask("batch", "", "sleep 0.2"))[0]
	r.registering.Lock()
	stopped := make(chan error)
	go func() { stopped <- r.ReplaceAlloc(l.ID) }()
	r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
	r.registering.Unlock()
	testkit.NoError(t, <-stopped)
	testkit.Equal(t, len(r.Snapshot().Allocations), 1, "allocations")
}

// TestScaleOfStoppedJob stops a job after its scaling has read it: it stays stopped.
func TestScaleOfStoppedJob(t *testing.T) {
	r := beginAlone(t)
	r.sleeping()
	now := testkit.Value(r.job("test"))(t)
	source := testkit.Value(scaled(now, "g", 2))(t)
	must(t, r.StopJob("test", false, nil))
	if _, _, err := r.RunJob(t.Context(), source, &now.ModifyIndex); !errors.Is(err, allocation.ErrChanged) {
		t.Errorf("registration of what was read before: %v", err)
	}
	if _, _, err := r.ScaleJob(t.Context(), "test", "g", 2); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("scaling: %v", err)
	}
	testkit.Equal(t, len(r.Snapshot().Allocations), 1, "allocations")
}
