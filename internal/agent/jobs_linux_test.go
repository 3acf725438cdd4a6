// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/alloc"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

// shell is a task that runs a shell command, with more in its block.
func shell(name, more, command string) string {
	return fmt.Sprintf("task %q {\n driver = \"tacho\"\n kill_timeout = \"1s\"\n config {\n command = \"/bin/sh\"\n args = [\"-c\", %q]\n }\n%s\n}\n",
		name, command, more)
}

func inGroup(count int, tasks ...string) string {
	return fmt.Sprintf("job \"test\" {\n group \"g\" {\n count = %d\n%s\n }\n}", count, strings.Join(tasks, ""))
}

// TestLifecycleOrder lets tasks write when they begin and end, into the directory that they share.
func TestLifecycleOrder(t *testing.T) {
	r := beginAlone(t)
	say := func(what, then string) string {
		return fmt.Sprintf("echo %s >> $NOMAD_ALLOC_DIR/data/order; %s", what, then)
	}
	lifecycle := func(hook string, sidecar bool) string {
		return fmt.Sprintf("lifecycle {\n hook = %q\n sidecar = %v\n}", hook, sidecar)
	}
	wait := "while [ ! -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done"
	l := r.submit("job \"test\" {\n type = \"batch\"\n group \"g\" {\n" +
		shell("main", "", say("main", wait)) +
		shell("first", lifecycle("prestart", false), say("first", "sleep 0.2; echo first-end >> $NOMAD_ALLOC_DIR/data/order")) +
		shell("beside", lifecycle("prestart", true), "exec sleep 1000") +
		shell("then", lifecycle("poststart", false), say("then", "touch $NOMAD_ALLOC_DIR/data/go")) +
		shell("last", lifecycle("poststop", false), say("last", "true")) + " }\n}")[0]
	l = r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	if l.ClientStatus != allocation.Complete {
		t.Errorf("status %s: %s", l.ClientStatus, l.Description)
	}
	text := testkit.Value(os.ReadFile(filepath.Join(r.host.Dir, l.ID, "alloc", "data", "order")))(t)
	testkit.Diff(t, "result", []string{"first", "first-end", "main", "then", "last"}, strings.Fields(string(text)))
	if got := l.Tasks["beside"].State; got.Failed || got.Phase != hook.PhaseDead {
		t.Errorf("sidecar %+v", got)
	}
}

func TestJobIsUpdatedInPlace(t *testing.T) {
	r := beginAlone(t)
	live := func() (ids []string) {
		for _, l := range r.Snapshot().Allocations {
			if l.DesiredStatus == allocation.DesiredRun {
				ids = append(ids, l.Name+" "+l.ID)
			}
		}
		return ids
	}
	run := func(text string) bool {
		t.Helper()
		_, changed, err := r.RunJob(t.Context(), job.Source{Filename: "f", Text: text}, nil)
		must(t, err)
		return changed
	}
	sleep := shell("t", "", "exec sleep 1000")
	run(inGroup(2, sleep))
	before := live()
	if len(before) != 2 {
		t.Fatalf("allocations %q", before)
	}
	if run(inGroup(2, sleep)) {
		t.Error("the same job changed something")
	}
	if run("# said in other words\n" + inGroup(2, sleep)) {
		t.Error("the same job in other words changed something")
	}
	run(inGroup(3, sleep))
	if after := live(); len(after) != 3 || len(intersection(before, after)) != 2 {
		t.Errorf("allocations %q, were %q", after, before)
	}
	run(inGroup(1, sleep))
	if after := live(); len(after) != 1 {
		t.Errorf("allocations %q", after)
	}
	before = live()
	run(inGroup(1, shell("t", "", "exec sleep 1001")))
	if after := live(); len(after) != 1 || len(intersection(before, after)) != 0 {
		t.Errorf("allocations %q, were %q", after, before)
	}
	must(t, r.StopJob("test", true, nil))
	if _, err := r.Snapshot().Job("test"); !errors.Is(err, allocation.ErrNotFound) {
		t.Errorf("job after its purge: %v", err)
	}
	for _, l := range r.Snapshot().Allocations {
		r.await(l.ID, "complete", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	}
	r.eventually("garbage", func() bool { return len(r.endedAllocs()) == 4 })
	if removed, err := r.CollectGarbage(); removed != 4 || err != nil {
		t.Errorf("%d removed, %v", removed, err)
	}
	if left, err := os.ReadDir(r.host.Dir); len(left) != 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if versions, err := r.host.Store.Jobs(); len(versions) != 0 || err != nil {
		t.Errorf("versions left: %v, %v", versions, err)
	}
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

func TestCoresAreReserved(t *testing.T) {
	r := beginAlone(t)
	all := len(r.Snapshot().Node.Resources.Cores)
	text := func(id string, cores int) string {
		return strings.Replace(inGroup(1, shell("t", fmt.Sprintf("resources {\n cores = %d\n}", cores), "exec sleep 1000")), "test", id, 1)
	}
	l := r.submit(text("one", all))[0]
	if got := l.Tasks["t"].Cores; got != cgroup.FormatCPUs(r.Snapshot().Node.Resources.Cores) {
		t.Errorf("cores %q of %v", got, r.Snapshot().Node.Resources.Cores)
	}
	// Who comes second waits, and is started when the cores are free.
	if own := r.submit(text("two", 1)); len(own) != 0 {
		t.Errorf("allocations %+v", own)
	}
	r.waits("two", "free: 0")
	must(t, r.StopJob("one", false, nil))
	r.placed("two", 1)
}

func TestActsOnTasks(t *testing.T) {
	r := beginAlone(t)
	l := r.submit(inGroup(1, shell("t", "", "trap 'echo got' HUP; echo up; while :; do sleep 0.05; done")))[0]
	r.await(l.ID, "running", isRunning)
	logged := func(text string) func() bool {
		return func() bool {
			log, err := l.Dir.OpenLog("t", "stdout", datadir.WholeLog)
			if err != nil {
				return false
			}
			content, err := io.ReadAll(log)
			return errors.Join(err, log.Close()) == nil && strings.Contains(string(content), text)
		}
	}
	r.eventually("the trap", logged("up"))
	// The task's first words can be there before its start has been reported.
	r.eventually("the task takes a signal", func() bool { return r.SignalAlloc(t.Context(), l.ID, "", "SIGHUP") == nil })
	r.eventually("the signal", logged("got"))
	stream, err := r.ExecTask(t.Context(), l.ID, "t", driver.ExecOptions{Command: []string{"/bin/sh", "-c", "echo $NOMAD_TASK_NAME"}})
	must(t, err)
	var out strings.Builder
	for {
		piece := testkit.Value(stream.Recv())(t)
		out.Write(piece.Stdout)
		if piece.Exit != nil {
			break
		}
	}
	testkit.Equal(t, out.String(), "t\n", "exec wrote")
	testkit.NoError(t, r.RestartAlloc(l.ID, "t"))
	r.await(l.ID, "restarted", func(l *allocation.Allocation) bool { return l.Tasks["t"].State.Restarts == 1 && isRunning(l) })
	if _, err := r.Snapshot().Allocation(l.ID[:6]); err != nil {
		t.Error(err)
	}
	for _, err := range []error{r.SignalAlloc(t.Context(), l.ID, "nobody", "SIGHUP"), r.RestartAlloc(l.ID, "nobody")} {
		if want := "allocation " + l.ID[:8] + ` has no task "nobody", only t`; !errors.Is(err, allocation.ErrNotFound) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	must(t, r.StopJob(l.JobID, false, nil))
	r.await(l.ID, "ended", func(l *allocation.Allocation) bool { return l.ClientStatus.Ended() })
	// A signal that there is not is the caller's mistake, whatever the task does.
	const want = `signal "FOO": must be a name such as TERM or a number from 1 to 64`
	if err := r.SignalAlloc(t.Context(), l.ID, "", "FOO"); !errors.Is(err, driver.ErrInvalid) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := r.SignalAlloc(t.Context(), l.ID, "", "HUP"); !errors.Is(err, hook.ErrNotRunning) {
		t.Errorf("error %v, want %v", err, hook.ErrNotRunning)
	}
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	var ended []endedAlloc
	for i, minutes := range []int{5, 1, 3, 100} {
		ended = append(ended, endedAlloc{&alloc.Alloc{ID: fmt.Sprint(i)}, time.Duration(minutes) * time.Minute})
	}
	ids := func(list []endedAlloc) (ids []string) {
		for _, e := range list {
			ids = append(ids, e.alloc.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{"3"}, ids(garbage(ended, time.Hour, 10))); diff != "" {
		t.Error("by age:", diff)
	}
	if diff := cmp.Diff([]string{"0", "3"}, ids(garbage(ended, time.Hour, 2))); diff != "" {
		t.Error("by number:", diff)
	}
	if got := garbage(ended, 200*time.Minute, 4); len(got) != 0 {
		t.Errorf("nothing is due: %v", ids(got))
	}
}

// TestGarbageIsCollectedBetweenRegistrations holds that a job's versions are not forgotten while one is registered.
func TestGarbageIsCollectedBetweenRegistrations(t *testing.T) {
	r := beginAlone(t)
	done := make(chan error, 1)
	r.mu.Lock() // keeps the collection from its end
	unlock := sync.OnceFunc(r.mu.Unlock)
	defer unlock()
	go func() {
		_, err := r.removeGarbage(false)
		done <- err
	}()
	r.eventually("the lock of registrations", func() bool {
		free := r.registering.TryLock()
		if free {
			r.registering.Unlock()
		}
		return !free
	})
	unlock()
	must(t, <-done)
}

// TestFailedAllocationEndsWithItsLastTask has a task that goes on for a while after another one has failed.
func TestFailedAllocationEndsWithItsLastTask(t *testing.T) {
	r := beginAlone(t)
	all := len(r.Snapshot().Node.Resources.Cores)
	text := func(id, more string) string {
		return fmt.Sprintf("job %q {\n group \"g\" {\n%s%s }\n}", id, more,
			shell("b", fmt.Sprintf("kill_signal = \"SIGUSR1\"\nresources {\n cores = %d\n}", all),
				"trap '' USR1; touch $NOMAD_ALLOC_DIR/data/up; while ! [ -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done"))
	}
	bad := strings.ReplaceAll(text("bad", "restart {\n attempts = 0\n mode = \"fail\"\n}\n"+
		shell("a", "", "while ! [ -e $NOMAD_ALLOC_DIR/data/up ]; do sleep 0.02; done; exit 3")), "\"1s\"", "\"1m\"")
	l := r.submit(bad)[0]
	l = r.await(l.ID, "failed", func(l *allocation.Allocation) bool { return l.ClientStatus == allocation.Failed })
	if l.Tasks["b"].State.Phase == hook.PhaseDead {
		t.Fatal("the other task did not go on")
	}
	r.submit(text("other", ""))
	r.waits("other", "free: 0") // the cores of a running task are not given away
	must(t, r.StopJob("bad", false, nil))
	var err error
	if l, err = r.Snapshot().Allocation(l.ID); err != nil || l.DesiredStatus != allocation.DesiredStop {
		t.Errorf("allocation %+v, error %v", l, err)
	}
	data := filepath.Join(r.host.Dir, l.ID, "alloc", "data", "go")
	must(t, os.WriteFile(data, nil, 0o600))
	r.await(l.ID, "dead", func(l *allocation.Allocation) bool { return l.Tasks["b"].State.Phase == hook.PhaseDead })
	r.placed("other", 1)
}

func TestJobWithCoresIsUpdated(t *testing.T) {
	r := beginAlone(t)
	all := len(r.Snapshot().Node.Resources.Cores)
	text := func(id, env string) string {
		return strings.Replace(inGroup(1, shell("t", fmt.Sprintf("env {\n A = %q\n}\nresources {\n cores = %d\n}", env, all),
			"trap '' USR1; touch $NOMAD_ALLOC_DIR/data/up; while ! [ -e $NOMAD_ALLOC_DIR/data/go ]; do sleep 0.02; done")), "test", id, 1)
	}
	slow := strings.NewReplacer("\"1s\"", "\"1m\"\nkill_signal = \"SIGUSR1\"")
	old := r.submit(slow.Replace(text("one", "a")))[0]
	data := filepath.Join(r.host.Dir, old.ID, "alloc", "data")
	r.eventually("the task's first word", func() bool {
		_, err := os.Stat(filepath.Join(data, "up"))
		return err == nil
	})
	if _, _, err := r.RunJob(t.Context(), job.Source{Text: text("one", "b")}, nil); err != nil {
		t.Fatal(err)
	}
	for _, l := range r.Snapshot().Allocations {
		if got := l.Tasks["t"].Cores; got != old.Tasks["t"].Cores || (l.DesiredStatus == allocation.DesiredRun) == (l.ID == old.ID) {
			t.Errorf("allocation %+v, cores %q", l, got)
		}
	}
	must(t, r.StopJob("one", false, nil))
	r.submit(text("two", "a"))
	r.waits("two", "free: 0") // those of tasks that are being stopped are not given to another job
	must(t, r.StopJob("two", false, nil))
	must(t, os.WriteFile(filepath.Join(data, "go"), nil, 0o600))
}

// TestValidateEndsWithItsCaller has nobody who waits for the answer: templates may take long.
func TestValidateEndsWithItsCaller(t *testing.T) {
	r := beginAlone(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := inGroup(1, shell("t", "template {\n data = \"x\"\n destination = \"local/x\"\n}", "true"))
	if _, err := r.Validate(ctx, job.Source{Text: text}); !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrInvalid) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Validate(t.Context(), job.Source{Text: text}); err != nil {
		t.Error(err)
	}
}

// TestValidateSaysWhere has what only this machine knows to be wrong, each with its place.
func TestValidateSaysWhere(t *testing.T) {
	r := beginAlone(t)
	const shape = "job \"j\" {\n%s\ngroup \"g\" {\ntask \"t\" {\ndriver = \"tacho\"\nconfig {\ncommand = \"true\"\n%s\n}\n%s\n}\n}\n}"
	for name, tt := range map[string]struct{ job, config, task, want string }{
		"datacenter":  {job: `datacenters = ["moon"]`, want: "f:2,15-23: Invalid value; datacenters: "},
		"region":      {job: `region = "moon"`, want: "f:2,10-16: Invalid value; region: "},
		"user":        {task: `user = "nosuchuser"`, want: "f:10,8-20: Invalid value; user: unknown user nosuchuser"},
		"cores":       {task: "resources {\ncores = 1000\n}", want: "f:11,9-13: Invalid value; resources.cores: requests 1,000 cores"},
		"kill_signal": {task: `kill_signal = "SIGFOO"`, want: `f:10,15-23: Invalid value; kill_signal: signal "SIGFOO": must be a name such as TERM or a number from 1 to 64`},
		"work_dir":    {config: `work_dir = "rel"`, want: `f:6,1-7: Invalid value; config: work_dir "rel": must be an absolute path`},
		"adj":         {config: "oom_score_adj = 2000", want: "f:6,1-7: Invalid value; config: oom_score_adj 2000"},
		"adj allowed": {config: "oom_score_adj = -500", want: "f:6,1-7: Invalid value; config: oom_score_adj -500: below 0, the lowest that the operator allows (min_oom_score_adj)"},
		"cgroup":      {config: "cgroup_v1_override { nosuch = \"/x\" }", want: `f:6,1-7: Invalid value; config: cgroup_v1_override: no hierarchy of the controller "nosuch"`},
		"misspelled":  {config: `comand = "x"`, want: `f:8,1-7: Unsupported argument; An argument named "comand" is not expected here.`},
		"type":        {config: "args = 1", want: "f:8,8-9: "},
		"template":    {task: "template {\ndata = \"{{ key `x` }}\"\ndestination = \"local/x\"\n}", want: "f:10: template local/x: "},
		"signals":     {task: `kill_signal = "hup"`},
		"environment": {task: "template {\ndata = \"noequals\"\ndestination = \"local/x\"\nenv = true\n}", want: "f:10: template local/x: "},
		"fine":        {config: `work_dir = "${NOMAD_TASK_DIR}"`},
	} {
		text := fmt.Sprintf(shape, tt.job, tt.config, tt.task)
		_, err := r.Validate(t.Context(), job.Source{Filename: "f", Text: text})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error %v, want %q in it", name, err, tt.want)
		}
	}
	const bare = "job \"j\" {\n task \"t\" {\n  driver = \"tacho\"\n }\n}"
	if _, err := r.Validate(t.Context(), job.Source{Filename: "f", Text: bare}); err == nil || !strings.HasPrefix(err.Error(), "f:2,2-2: Missing required argument; ") {
		t.Errorf("without a config block: error %v", err)
	}
	const other = "job \"j\" {\n task \"t\" {\n  driver = \"tahco\"\n }\n}"
	if _, err := r.Validate(t.Context(), job.Source{Text: other}); err == nil || !strings.Contains(err.Error(), `unknown driver "tahco"; known drivers: tacho`) {
		t.Errorf("another driver: error %v", err)
	}
	// All of it at once, a line each.
	_, _, err := r.RunJob(t.Context(), job.Source{Filename: "f", Text: fmt.Sprintf(shape,
		`region = "moon"`, "oom_score_adj = 2000\nwork_dir = \"rel\"", `user = "nosuchuser"`)}, nil)
	if jobs := r.Snapshot().Jobs; err == nil || !errors.Is(err, driver.ErrInvalid) || len(jobs) != 0 {
		t.Fatal(err, jobs)
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"f:2,10-16: ", "f:11,8-20: ", `f:6,1-7: Invalid value; config: work_dir "rel"`, "f:6,1-7: Invalid value; config: oom_score_adj 2000"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%v", len(lines), len(want), err)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("line %d: %s, want %q in it", i+1, line, want[i])
		}
	}
}

func TestTakePorts(t *testing.T) {
	t.Parallel()
	group := &job.Group{Name: "g", Ports: []*job.Port{{Label: "any"}, {Label: "set", Value: 80}}}
	v := vacancy{group: group}
	r := &reservations{cores: map[int]bool{}, ports: map[int]string{}}
	for port := alloc.FirstPort; port < alloc.LastPort-200; port++ {
		r.ports[port] = "other"
	}
	must(t, r.take(&v))
	if got := v.ports; got["set"] != 80 || got["any"] < alloc.LastPort-200 || got["any"] > alloc.LastPort {
		t.Errorf("ports %v", got)
	}
	before := len(r.ports)
	if err := r.take(&vacancy{group: group}); err == nil || len(r.ports) != before {
		t.Errorf("a port was given twice, or one of a failure is still taken: %v, %d of %d ports", err, len(r.ports), before)
	}
	for port := alloc.FirstPort; port <= alloc.LastPort; port++ {
		r.ports[port] = "other"
	}
	group.Ports = group.Ports[:1]
	if err := r.take(&vacancy{group: group}); err == nil {
		t.Error("a port was given where none is left")
	}
}
