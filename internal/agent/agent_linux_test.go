// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

// running is an agent at work in a test.
type running struct {
	*Agent
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
}

func testConfig(dir string) config.Config {
	c := config.Default()
	c.DataDir, c.Name = dir, "here"
	c.Telemetry.PublishAllocationMetrics = true
	c.Telemetry.CollectionInterval, c.History.Interval = 100*time.Millisecond, 100*time.Millisecond
	c.History.Span = time.Minute
	return c
}

// shortDir is a directory for an agent: the path of a unix socket is limited to 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := testkit.Value(os.MkdirTemp("/tmp", "tacho"))(t)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// newAgent returns an agent that logs to the test.
func newAgent(t *testing.T, c config.Config) *Agent {
	return New(c, hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Debug, Output: testWriter{t}}))
}

// begin runs an agent in a directory.
func begin(t *testing.T, c config.Config) *running {
	t.Helper()
	return run(t, newAgent(t, c))
}

// beginAlone runs an agent for one test, which is parallel to others; the agent and its tasks end with it.
func beginAlone(t *testing.T) *running {
	t.Helper()
	t.Parallel()
	r := begin(t, testConfig(shortDir(t)))
	t.Cleanup(func() { r.end(true) })
	return r
}

// run runs an agent.
func run(t *testing.T, a *Agent) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Agent: a, t: t, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- r.Run(ctx) }()
	select {
	case <-r.Ready():
	case err := <-r.ended:
		t.Fatalf("agent: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("agent is not ready")
	}
	return r
}

// end ends the agent; its tasks run on, unless stop says otherwise.
func (r *running) end(stop bool) {
	r.t.Helper()
	if stop {
		for _, l := range r.Snapshot().Allocations {
			r.findByID(l.ID).Stop(userStopped)
			r.await(l.ID, "dead", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
		}
	}
	r.wantTrueStates()
	r.cancel()
	if err := <-r.ended; err != nil {
		r.t.Errorf("agent: %v", err)
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// submit runs a job and returns its allocations.
func (r *running) submit(text string) []*allocation.Allocation {
	r.t.Helper()
	status, _, err := r.RunJob(r.t.Context(), job.Source{Filename: "test.hcl", Text: text}, nil)
	must(r.t, err)
	var own []*allocation.Allocation
	for _, l := range r.Snapshot().Allocations {
		if l.JobID == status.ID {
			own = append(own, l)
		}
	}
	return own
}

// sleeping runs a service that does nothing, and returns its allocation once it is running.
func (r *running) sleeping() *allocation.Allocation {
	r.t.Helper()
	return r.await(r.submit(oneTask("service", "", "exec sleep 1000"))[0].ID, "running", isRunning)
}

// goesOn holds that the task of an allocation is the process that it was, and returns the allocation as it is now.
func (r *running) goesOn(was *allocation.Allocation) *allocation.Allocation {
	r.t.Helper()
	now := r.await(was.ID, "running", isRunning)
	got, want := now.Tasks["t"].Attributes["pid"], was.Tasks["t"].Attributes["pid"]
	if got != want || now.Tasks["t"].State.Restarts != 0 {
		r.t.Errorf("process %s, was %s; %d restarts", got, want, now.Tasks["t"].State.Restarts)
	}
	return now
}

// usage returns what the task t of an allocation uses.
func (r *running) usage(id string) *figures.Figures {
	r.t.Helper()
	now := r.Snapshot(id)
	l := testkit.Value(now.Allocation(id))(r.t)
	return now.Usage(l.Tasks["t"])
}

// await waits for an allocation to be as wanted, by the event feed.
func (r *running) await(id, what string, is func(*allocation.Allocation) bool) *allocation.Allocation {
	r.t.Helper()
	// Tasks are stopped when the context of their test has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), time.Minute)
	defer cancel()
	events := r.Feed().Subscribe(r.Feed().Index())
	for {
		l := testkit.Value(r.Snapshot().Allocation(id))(r.t)
		if is(l) {
			return l
		}
		if _, err := events.Next(ctx); err != nil {
			r.t.Fatalf("allocation did not become %s: %+v", what, l)
		}
	}
}

// eventually polls what has no events.
func (r *running) eventually(what string, is func() bool) {
	r.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for !is() {
		select {
		case <-ticker.C:
		case <-deadline:
			r.t.Fatalf("%s did not come", what)
		}
	}
}

// oneTask is a job of one task that runs a shell command.
func oneTask(jobType, more, command string) string {
	return fmt.Sprintf("job \"test\" {\n type = %q\n group \"g\" {\n task \"t\" {\n driver = \"tacho\"\n config {\n"+
		" command = \"/bin/sh\"\n args = [\"-c\", %q]\n }\n resources {\n memory = 64\n }\n%s\n }\n }\n}", jobType, command, more)
}

func isRunning(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Running }

func TestBatchJobRunsToItsEnd(t *testing.T) {
	r := beginAlone(t)
	l := r.submit(oneTask("batch", "env {\n A = \"${NOMAD_TASK_NAME}\"\n}\ntemplate {\n data = \"{{ env `A` }}!\"\n destination = \"local/f\"\n}",
		"echo out $A; cat local/f; echo err >&2; pwd"))[0]
	l = r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	if l.ClientStatus != allocation.Complete || l.Tasks["t"].State.Exit == nil || l.Tasks["t"].State.Exit.Code != 0 {
		t.Fatalf("allocation %+v, task %+v", l, l.Tasks["t"])
	}
	final := testkit.Value(r.Record(l.ID, "t"))(t)
	if final.Diagnosis.Verdict != "completed" || final.ExitCode == nil || *final.ExitCode != 0 {
		t.Errorf("record %+v", final)
	}
	log := testkit.Value(l.Dir.OpenLog("t", "stdout", datadir.WholeLog))(t)
	text, err := io.ReadAll(log)
	if err != nil || !strings.HasPrefix(string(text), "out t\nt!/") {
		t.Errorf("log %q, error %v", text, err)
	}
	testkit.NoError(t, log.Close())
	r.eventually("the end of the job", func() bool { // once it is decided that nothing replaces the allocation
		return testkit.Value(r.Snapshot().Job("test"))(t).Status == "dead"
	})
}

func TestServiceIsRecoveredWithItsHistory(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	r := begin(t, c)
	l := r.submit(oneTask("service", "", "i=0; while :; do i=$((i+1)); done"))[0]
	l = r.await(l.ID, "running", isRunning)
	samples := func(n int) func() bool {
		return func() bool {
			points := testkit.Value(r.History(l.ID, "t", series.Query{}))(t)
			return len(points) >= n
		}
	}
	r.eventually("history", samples(5))
	if u := r.usage(l.ID); u.Sample == nil || u.Reason != "" {
		t.Fatalf("usage %+v", u)
	}
	pid := l.Tasks["t"].Attributes["pid"]
	nearest, err := r.History(l.ID, "t", series.Query{Nearest: time.Now(), Processes: true})
	if err != nil || len(nearest) != 1 {
		t.Fatalf("nearest %v, error %v", nearest, err)
	}
	if rows := nearest[0].Processes; len(rows) != 1 || fmt.Sprint(rows[0].PID) != pid {
		t.Errorf("processes %+v, want %s", rows, pid)
	} else if cpu, ok := rows[0].Readings.Number(procstats.ProcessCPU); !ok || cpu <= 0 {
		t.Errorf("the process used %v s (%v)", cpu, ok)
	}
	snapshot := r.Snapshot()
	for _, trusted := range []bool{false, true} {
		line, _ := snapshot.UsageFor(snapshot.Allocations[0].Tasks["t"], trusted).Sample.Processes[0].Readings.Get(procstats.ProcessCmdline)
		if text, _ := line.Text(); strings.Contains(text, "while :; do") != trusted {
			t.Errorf("trusted %v: the command line is %q", trusted, text)
		}
	}
	before := nearest[0]
	r.end(false)

	r = begin(t, c)
	defer r.end(true)
	r.goesOn(l)
	r.eventually("history goes on", func() bool {
		points, err := r.History(l.ID, "t", series.Query{Since: before.Wall})
		return err == nil && len(points) > 4
	})
	points := testkit.Value(r.History(l.ID, "t", series.Query{}))(t)
	gaps, last := 0, 0.0
	for _, p := range points {
		if p.Gap != series.NoGap {
			gaps++
			continue
		}
		v, ok := p.Values[procstats.HeadlineCPU]
		if !ok || v < last {
			t.Errorf("CPU time %v (measured: %v) after %v", v, ok, last)
		}
		last = v
	}
	testkit.Equal(t, gaps, 1, "gaps")
}

func TestFailedTaskIsRestartedByItsPolicy(t *testing.T) {
	r := beginAlone(t)
	l := r.submit(oneTask("batch", "restart {\n attempts = 2\n interval = \"1h\"\n delay = \"10ms\"\n mode = \"fail\"\n}", "exit 3"))[0]
	l = r.await(l.ID, "failed", func(l *allocation.Allocation) bool { return l.Tasks["t"].State.Phase == hook.PhaseDead })
	if l.ClientStatus != allocation.Failed || l.Tasks["t"].State.Restarts != 2 || l.Tasks["t"].State.Exit.Code != 3 {
		t.Errorf("status %s, task %+v", l.ClientStatus, l.Tasks["t"].State)
	}
}

// TestSnapshotsShare holds that what has not changed is the same in two snapshots, that what has changed is in the
// next, and that a snapshot stays as it was.
func TestSnapshotsShare(t *testing.T) {
	r := beginAlone(t)
	id := r.submit(oneTask("service", "", "exec sleep 1000"))[0].ID
	other := r.submit(strings.ReplaceAll(oneTask("service", "", "exec sleep 1000"), `"test"`, `"other"`))[0].ID
	begun := func(l *allocation.Allocation) bool { // the last two events of a start come in either order
		has := func(kind hook.EventType) bool {
			return slices.ContainsFunc(l.Tasks["t"].Events, func(e allocation.Event) bool { return e.Type == kind })
		}
		return has(allocation.EventDriver) && has(hook.EventStarted)
	}
	r.await(other, "the driver's event", begun)
	r.await(id, "the driver's event", begun)
	r.eventually("readings", func() bool { return r.usage(id).Sample != nil && r.usage(other).Sample != nil })
	of := func(id string) *allocation.Allocation {
		t.Helper()
		l := testkit.Value(r.Snapshot().Allocation(id))(t)
		return l
	}
	var before, still *allocation.Allocation
	equal := 0
	r.eventually("rest", func() bool { // the feed gets an event a moment after it can be seen
		was, wasOther := before, still
		before, still = of(id), of(other)
		if equal++; before != was || still != wasOther {
			equal = 0
		}
		return equal >= 20
	})
	sample := r.usage(id).Sample
	r.eventually("another reading", func() bool { return r.usage(id).Sample != sample })
	if of(id) != before {
		t.Error("a reading made another allocation")
	}
	r.findByID(id).Stop(userStopped)
	if now := of(id); now.DesiredStatus != allocation.DesiredStop || before.DesiredStatus != allocation.DesiredRun {
		t.Errorf("desired to %s, before %s", now.DesiredStatus, before.DesiredStatus)
	}
	r.await(id, "dead", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	if before.ClientStatus != allocation.Running || before.Tasks["t"].State.Phase != hook.PhaseRunning {
		t.Errorf("the earlier snapshot became %s", before.ClientStatus)
	}
	if of(other) != still {
		t.Error("the other allocation is another value")
	}
	some := r.Snapshot(other)
	if len(some.Allocations) != 1 || some.Allocations[0] != still || len(some.Jobs) != 0 {
		t.Errorf("a snapshot of one has %d allocations and %d jobs", len(some.Allocations), len(some.Jobs))
	}
}

func TestPublishingOffReadsNothing(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	c.Telemetry.PublishAllocationMetrics = false
	r := begin(t, c)
	defer r.end(true)
	l := r.submit(oneTask("service", "", "sleep 1000"))[0]
	r.await(l.ID, "running", isRunning)
	if u := r.usage(l.ID); u.Sample != nil || !strings.Contains(u.Reason, "publishing is off") {
		t.Errorf("usage %+v", u)
	}
	c.Telemetry.PublishAllocationMetrics = true
	if ignored, err := r.Reload(c); err != nil || len(ignored) > 0 {
		t.Fatalf("ignored %q, error %v", ignored, err)
	}
	r.eventually("reading", func() bool { return r.usage(l.ID).Sample != nil })
	if got := r.Cost().Samples; got == 0 {
		t.Error("no samples counted")
	}
}

// TestPublishingIsSwitchedWhileAJobIsPlaced switches between the making of an allocation and its entry into the list.
func TestPublishingIsSwitchedWhileAJobIsPlaced(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			c := testConfig(shortDir(t))
			c.Telemetry.PublishAllocationMetrics = !on
			r := begin(t, c)
			defer r.end(true)
			first := r.submit(oneTask("service", "", "exec sleep 1000"))[0]
			l, err := alloc.New(r.host, state.Allocation{ID: allocation.NewID(), JobID: "test", Group: "g"}, r.currentVersion(first.JobID).Spec, nil)
			must(t, err)
			task := l.Tasks()[0] // the allocation forgets it when it has ended
			c.Telemetry.PublishAllocationMetrics = on
			if _, err := r.Reload(c); err != nil {
				t.Fatal(err)
			}
			r.admit(l)
			l.Begin()
			r.await(l.ID, "running", isRunning)
			sampled := func() bool { return task.Figures("").Sample != nil }
			if on {
				r.eventually("a reading", sampled)
			}
			r.findByID(l.ID).Stop(userStopped)
			r.await(l.ID, "dead", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
			if sampled() != on {
				t.Errorf("sampled is %t, want %t", !on, on)
			}
		})
	}
}

// TestReadersDoNotWaitForTheDisk looks at an allocation while a change of it is being stored.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	r := beginAlone(t)
	id := r.sleeping().ID
	l := testkit.Value(r.find(id))(t)
	storing, goOn, stored := make(chan struct{}), make(chan struct{}), make(chan struct{})
	meet, release := sync.OnceFunc(func() { close(storing) }), sync.OnceFunc(func() { close(goOn) })
	defer release()
	if _, err := r.host.Store.Index(0, func() uint64 { meet(); <-goOn; return r.host.Feed.Index() }); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(stored); l.Stop("test") }()
	<-storing
	read := make(chan struct{})
	go func() { defer close(read); l.Snapshot() }()
	select {
	case <-read:
	case <-time.After(5 * time.Second):
		t.Error("the reader waits")
	}
	release()
	<-stored
	<-read
}
