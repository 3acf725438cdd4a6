// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// TestRestartDoesNotEvaluate finds a job again whose source could not be read any more: it is not read.
func TestRestartDoesNotEvaluate(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.sleeping()
	before := r.jobJSON("test")
	r.end(false)
	store, version := openJob(t, c)
	version.Source.Text = "job {"
	must(t, errors.Join(store.Apply(state.ChangeJob(version)), store.Close()))
	r = begin(t, c)
	defer r.end(true)
	testkit.Diff(t, "the job", before, r.jobJSON("test"))
	r.goesOn(l)
}

// jobJSON is a job as the API shows it.
func (r *running) jobJSON(id string) string {
	r.t.Helper()
	j := testkit.Value(r.Snapshot().Job(id))(r.t)
	text := testkit.Value(json.MarshalIndent(j, "", " "))(r.t)
	return string(text)
}

// TestTasksOutliveWhatCannotBeRead lets an agent find a running task whose history does not open, and then one whose
// job is not in the state.
func TestTasksOutliveWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.sleeping()
	path := datadir.In(r.host.Dir, l.ID).History("t")
	r.end(false)
	must(t, errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o700)))
	r = begin(t, c)
	r.goesOn(l)
	r.eventually("failure of the history", func() bool { return r.Cost().Errors["history"] > 0 })
	testkit.Equal(t, r.Cost().Errors["history"], 1, "failures of the history counted")
	r.end(false)

	store, version := openJob(t, c)
	must(t, errors.Join(store.DeleteJob(version.ID, version.Version), store.Close()))
	r = begin(t, c)
	if all := r.Snapshot().Allocations; len(all) != 0 {
		t.Errorf("allocations %+v", all)
	}
	if _, err := r.CollectGarbage(); err != nil {
		t.Error(err)
	}
	r.end(false)

	store = openState(t, c)
	must(t, errors.Join(store.Apply(state.ChangeJob(version)), store.Close()))
	r = begin(t, c)
	defer r.end(true)
	r.goesOn(l)
}

// openState opens the state of an agent that does not run.
func openState(t *testing.T, c config.Config) *state.Store {
	t.Helper()
	store := testkit.Value(state.Open(filepath.Join(c.DataDir, "state.db")))(t)
	return store
}

// openJob opens the state of an agent that does not run, and returns the only version of its only job.
func openJob(t *testing.T, c config.Config) (*state.Store, *state.Job) {
	t.Helper()
	store := openState(t, c)
	versions, err := store.Jobs()
	if err != nil || len(versions) != 1 {
		t.Fatal(versions, err)
	}
	return store, versions[0]
}

// TestJobIsStoppedAfterAKill begins with a state in which a job was stopped and its allocation was not.
func TestJobIsStoppedAfterAKill(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*state.Job){
		"stopped": func(j *state.Job) { j.Stopped = true },
		"purged":  func(j *state.Job) { j.Stopped, j.Current = true, false },
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(shortDir(t))
			r := begin(t, c)
			l := r.sleeping()
			r.end(false)
			store, version := openJob(t, c)
			change(version)
			must(t, errors.Join(store.Apply(state.ChangeJob(version)), store.Close()))
			r = begin(t, c)
			defer r.end(true)
			if l, err := r.Snapshot().Allocation(l.ID); err != nil || l.DesiredStatus != allocation.DesiredStop {
				t.Fatalf("allocation %+v, error %v", l, err)
			}
			r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Complete })
		})
	}
}

// TestEndIsToldOnce is about a task that waits for its next start: nothing of the last one is left to be recovered, and
// an agent that was killed before it had decided over the end does not lose the record of it.
func TestEndIsToldOnce(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.submit(oneTask("batch", "restart {\n attempts = 1\n interval = \"2h\"\n delay = \"1h\"\n mode = \"delay\"\n}",
		"while ! [ -e local/go ]; do sleep 0.05; done; exit 3"))[0]
	l = r.await(l.ID, "running", isRunning)
	tasks, err := r.host.Store.Tasks()
	must(t, err)
	handle, runID := tasks[l.ID]["t"].Handle, l.Tasks["t"].RunID
	dir := datadir.In(r.host.Dir, l.ID)
	must(t, os.WriteFile(filepath.Join(dir.Task("t"), "local", "go"), nil, 0o600))
	waits := func(l *allocation.Allocation) bool { return !l.Tasks["t"].State.RestartAt.IsZero() }
	l = r.await(l.ID, "waiting for its restart", waits)
	if got := l.Tasks["t"].RunID; got != runID || got == "" {
		t.Errorf("run id %q, was %q", got, runID)
	}
	want, err := r.Record(l.ID, "t")
	if err != nil || len(want.Sources) == 0 {
		t.Fatalf("record %+v, error %v", want, err)
	}
	counters := want.EndCounters()
	maps.Copy(counters, map[string]string{"exit_code": "3", "signal": "0", "oom_killed": "false", "cause": "task"})
	for _, e := range l.Tasks["t"].Events {
		if diff := cmp.Diff(counters, e.Details); e.Type == hook.EventTerminated && diff != "" {
			t.Errorf("event of the end (-want +got):\n%s", diff)
		}
	}
	if _, measured := want.Measurements[procstats.PSICPUSome.String()]; measured && counters[procstats.PSICPUSome.String()] == "" {
		t.Errorf("counters of the end: %v", counters)
	}
	if tasks, err = r.host.Store.Tasks(); err != nil || tasks[l.ID]["t"].Handle != nil {
		t.Errorf("a handle of a task that was destroyed: %+v, error %v", tasks[l.ID]["t"], err)
	}
	r.end(false)

	store := openState(t, c)
	persisted := tasks[l.ID]["t"]
	persisted.Handle, persisted.Ended = handle, true
	// The clock was set back between the restart before this start and the start.
	persisted.State.RestartAt, persisted.State.LastRestart, persisted.State.Restarts = time.Time{}, time.Now().Add(6*time.Hour), 0
	must(t, errors.Join(store.Apply(state.ChangeTask(l.ID, "t", persisted)), store.Close()))
	r = begin(t, c)
	defer r.end(true)
	r.await(l.ID, "waiting for its restart", waits)
	got := testkit.Value(r.Record(l.ID, "t"))(t)
	testkit.Diff(t, "result", want, got)
}

// TestEndedAllocationStaysAsItIs stops a task that waits for its next start, and begins another agent.
func TestEndedAllocationStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.submit(oneTask("batch", "restart {\n attempts = 1\n interval = \"2h\"\n delay = \"1h\"\n mode = \"delay\"\n}", "exit 3"))[0]
	r.await(l.ID, "waiting for its restart", func(l *allocation.Allocation) bool { return !l.Tasks["t"].State.RestartAt.IsZero() })
	r.findByID(l.ID).Stop(userStopped)
	ended := func() bool { return len(r.endedAllocs()) == 1 }
	r.eventually("the end", ended)
	l = testkit.Value(r.Snapshot().Allocation(l.ID))(t)
	totals := func() figures.Totals {
		u := r.usage(l.ID)
		u.Totals.Counters = u.Stored()
		return u.Totals
	}
	before := totals()
	r.end(false)
	r = begin(t, c)
	defer r.end(false)
	r.eventually("the end", ended)
	again := testkit.Value(r.Snapshot().Allocation(l.ID))(t)
	if !again.ModifyTime.Equal(l.ModifyTime) {
		t.Errorf("modified at %v, was %v", again.ModifyTime, l.ModifyTime)
	}
	final := testkit.Value(r.Record(l.ID, "t"))(t)
	if diff := cmp.Diff(final.Diagnosis.OOM.Kills, before.OOMKills); diff != "" {
		t.Error("OOM kills:", diff)
	}
	if diff := cmp.Diff(before, totals()); diff != "" || len(before.Counters) == 0 {
		t.Errorf("%d totals, which another agent has otherwise: %s", len(before.Counters), diff)
	}
	if before, after := l.Tasks["t"].Ends, again.Tasks["t"].Ends; before != 1 || after != 1 {
		t.Errorf("%d ends, then %d, want 1", before, after)
	}
}

// TestIndexesGoOn ends an agent, as which the state cannot tell from a kill: no event has the index of an earlier one,
// and what an allocation was made with stays.
func TestIndexesGoOn(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	before := r.sleeping()
	r.end(false)
	newest := r.host.Feed.Index()

	r = begin(t, c)
	defer r.end(true)
	first, err := r.Feed().Subscribe(0).Next(t.Context()) // the node's own at the latest
	if err != nil || first.Index <= newest {
		t.Errorf("event %d after %d, %v", first.Index, newest, err)
	}
	l := testkit.Value(r.Snapshot().Allocation(before.ID))(t)
	if l.CreateIndex != before.CreateIndex || l.CreateIndex == 0 {
		t.Errorf("made with index %d, was %d", l.CreateIndex, before.CreateIndex)
	}
}

// TestNoSecondTaskBesideALiveOne is about executors that are alive and that an agent cannot take up when it begins.
func TestNoSecondTaskBesideALiveOne(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.sleeping()
	all, err := client.List(filepath.Join(c.DataDir, "run"))
	if err != nil || len(all) != 1 {
		t.Fatalf("executors %v, %v; want one", all, err)
	}
	executor := all[0]
	goesOn := func() {
		t.Helper()
		samples := r.Cost().Samples
		r.eventually("fresh reading", func() bool { return r.Cost().Samples > samples })
		r.goesOn(l)
	}
	r.end(false)

	must(t, syscall.Kill(executor.Executor.PID, syscall.SIGSTOP))
	r = begin(t, c)
	must(t, syscall.Kill(executor.Executor.PID, syscall.SIGCONT))
	goesOn()
	r.end(false)

	lock := testkit.Value(os.Open(filepath.Join(executor.Folder, "owner.lock")))(t)
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	r = begin(t, c)
	defer r.end(true)
	must(t, lock.Close())
	goesOn()
}
