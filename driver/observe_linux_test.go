// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/driver"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/plugin/proto/drivers"
	"github.com/tachograph/tacho/plugin/wire"
	"github.com/tachograph/tacho/procstats"
)

func TestStats(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("while :; do :; done")
	f.start(config)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	// The first reading does not wait for the interval.
	slow, err := f.TaskStats(ctx, config.ID, time.Hour)
	must(t, err)
	if _, err := slow.Recv(); err != nil {
		t.Fatal(err)
	}
	stream := testkit.Value(f.TaskStats(ctx, config.ID, 200*time.Millisecond))(t)
	before := stream.Baseline()
	first, err := stream.Recv()
	if err != nil || before == nil || before.Mono > first.Mono {
		t.Fatalf("first sample %+v, %v, baseline %+v", first, err, before)
	}
	before = first
	for range 5 {
		sample := testkit.Value(stream.Recv())(t)
		checkSample(t, sample, before)
		if !sample.Wall.After(before.Wall) {
			t.Errorf("read at %s, not after %s", sample.Wall, before.Wall)
		}
		before = sample
	}
	must(t, f.StopTask(ctx, config.ID, 0, ""))
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v, want EOF", err)
	}
}

// checkSample looks at a sample of a task with one busy process, in Nomad's form. How busy depends on the machine's
// other work.
func checkSample(t *testing.T, sample, before *procstats.Sample) {
	t.Helper()
	usage := wire.TaskStats("", sample, before, 2000).GetAggResourceUsage()
	cpu := usage.GetCpu()
	if !slices.Contains(cpu.GetMeasuredFields(), drivers.CPUUsage_PERCENT) || cpu.GetPercent() <= 0 || cpu.GetPercent() > 130 {
		t.Errorf("%f %% of a core (measured %v), want a busy one", cpu.GetPercent(), cpu.GetMeasuredFields())
	}
	// The kernel adds up memory.stat every two seconds: of a new task it can still be 0.
	if memory := usage.GetMemory(); !slices.Contains(memory.GetMeasuredFields(), drivers.MemoryUsage_RSS) {
		t.Errorf("RSS %d, measured %v", memory.GetRss(), memory.GetMeasuredFields())
	}
	rows := wire.TaskStats("", sample, before, 0).GetResourceUsageByPid()
	if len(rows) != 1 {
		t.Fatalf("rows %v, want one process", rows)
	}
	for pid, row := range rows {
		if _, err := strconv.Atoi(pid); err != nil {
			t.Errorf("row of process %q", pid)
		}
		measured := slices.Contains(row.GetCpu().GetMeasuredFields(), drivers.CPUUsage_PERCENT)
		if percent := row.GetCpu().GetPercent(); !measured || math.Abs(percent-cpu.GetPercent()) > 40 {
			t.Errorf("the only process uses %f %%, its task %f %%", percent, cpu.GetPercent())
		}
		if row.GetMemory().GetRss() == 0 {
			t.Errorf("RSS of the process: %+v", row.GetMemory())
		}
	}
}

func TestStatsRefused(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("true")
	f.start(config)
	if _, err := f.TaskStats(t.Context(), config.ID, 0); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("interval 0: %v", err)
	}
	f.wait(config.ID)
	stream := testkit.Value(f.TaskStats(t.Context(), config.ID, time.Second))(t)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("stats of an ended task: %v, want EOF", err)
	}
}

// stream opens a stream of samples of a task, and takes the first.
func (f *fixture) stream(config *driver.TaskConfig, interval time.Duration) driver.StatsStream {
	f.t.Helper()
	stream, err := f.TaskStats(f.t.Context(), config.ID, interval)
	must(f.t, err)
	_, err = stream.Recv()
	must(f.t, err)
	return stream
}

// events opens a stream of the events of all tasks.
func (f *fixture) events() driver.Stream[*driver.Event] {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	f.t.Cleanup(cancel)
	stream := testkit.Value(f.TaskEvents(ctx))(f.t)
	return stream
}

// collect reads events until one has a text.
func collect(t *testing.T, stream driver.Stream[*driver.Event], last string) []*driver.Event {
	t.Helper()
	var events []*driver.Event
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatalf("no event with %q: %v; so far %v", last, err, texts(events))
		}
		events = append(events, event)
		if strings.Contains(event.Message, last) {
			return events
		}
	}
}

func texts(events []*driver.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, e.Message)
	}
	return all
}

func TestEvents(t *testing.T) {
	f := newFixture(t, nil)
	stream := f.events()
	config := f.shell("exit 3")
	f.start(config)
	events := collect(t, stream, "exit code 3")
	if len(events) != 2 || !strings.HasPrefix(events[0].Message, "started pid ") {
		t.Errorf("events %q", texts(events))
	}
	for _, event := range events {
		if event.TaskID != config.ID || event.AllocID != config.AllocID || event.TaskName != config.Name || event.Timestamp.IsZero() {
			t.Errorf("event %+v is not of the task", event)
		}
	}
	if end := events[len(events)-1]; end.Annotations["verdict"] != "failed" || !strings.Contains(end.Message, "of CPU time") {
		t.Errorf("last event %q with %v", end.Message, end.Annotations)
	}
}

// TestEndWaitsForEvents is about a host that drops events of tasks that it knows to have ended.
func TestEndWaitsForEvents(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream := f.events()
	config := f.shell("exit 3")
	f.start(config)
	f.await("end of the task", func() bool {
		status, err := f.InspectTask(ctx, config.ID)
		return err == nil && status.State == driver.TaskExited
	})
	short, cancelShort := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancelShort()
	if exit, err := f.WaitTask(short, config.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end was reported before its events: %+v, %v", exit, err)
	}
	// A host that takes no events learns of the end all the same.
	if exit, err := f.WaitTask(ctx, config.ID); err != nil || exit.Code != 3 {
		t.Errorf("the end: %+v, %v", exit, err)
	}
	collect(t, stream, "exit code 3")
}

// No host listens while the driver is away; afterwards nothing is reported twice and nothing is lost.
func TestEventsOverRestart(t *testing.T) {
	f := newFixture(t, nil)
	stream := f.events()
	config := f.shell("exec sleep 1000") // one process: none outlives it
	handle := f.start(config)
	collect(t, stream, "started")
	f.restart()
	stream = f.events()
	must(t, f.RecoverTask(t.Context(), handle))
	must(t, f.StopTask(t.Context(), config.ID, 0, ""))
	if events := collect(t, stream, "Stopped"); len(events) != 1 {
		t.Errorf("events of the end: %q", texts(events))
	}
}

// loseExecutor kills an executor while the driver is there, or away and recovers the task later.
func (f *fixture) loseExecutor(pid int, handle *driver.TaskHandle, away bool) {
	f.t.Helper()
	if away {
		must(f.t, f.Close())
	}
	must(f.t, syscall.Kill(pid, syscall.SIGKILL))
	if away {
		f.await("end of the executor", func() bool { return !runs(pid) })
		f.open()
		must(f.t, f.RecoverTask(f.t.Context(), handle))
	}
}

func TestExecutorLost(t *testing.T) {
	for _, test := range []struct {
		name string
		away bool // the driver is away when the executor dies
	}{{"driver there", false}, {"driver away", true}} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil)
			config := f.shell("i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo ready; sleep 1000")
			handle := f.start(config)
			f.awaitOutput(config, "ready")
			status := testkit.Value(f.InspectTask(t.Context(), config.ID))(t)
			executor, main := number(t, status.Attributes["executor.pid"]), number(t, status.Attributes["pid"])
			f.loseExecutor(executor, handle, test.away)
			exit := f.wait(config.ID)
			if exit.Err == nil || !strings.Contains(exit.Err.Error(), "executor_lost") || exit.Signal != int(syscall.SIGKILL) {
				t.Errorf("exit %+v, want executor_lost", exit)
			}
			f.await("end of the task", func() bool { return !runs(main) })
			final := testkit.Value(f.FinalRecord(config.ID))(t)
			if status.Attributes["cgroup"] == "" {
				return // nothing counted for the task alone
			}
			if cpu := final.Headline["cpu_seconds_total"].Value; final.State != record.Lost || cpu == nil || *cpu < 0.01 {
				t.Errorf("the last totals are lost: state %s, headlines %+v, absent %v", final.State, final.Headline, final.Absent)
			}
			if last := final.End().LastReading; !strings.Contains(last, " before: ") {
				t.Errorf("last reading %q, want what the task held", last)
			}
		})
	}
}

// TestLostCommands kills the executor of a task that the driver reads. The record has the commands that had ended,
// whoever has counted them, and if nobody did at the end it states that; nothing is left of the executor's directory.
func TestLostCommands(t *testing.T) {
	for _, test := range []struct {
		name string
		away bool // the driver is away when the executor dies
		gaps int
	}{{"driver there", false, 0}, {"driver away", true, 1}} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, nil)
			begin := filepath.Join(f.dir, "begin")
			config := f.shell("while ! [ -e " + begin + " ]; do sleep 0.01; done; for i in 1 2 3; do /bin/true; done; echo ready; exec sleep 1000")
			handle := f.start(config)
			stream := f.stream(config, 20*time.Millisecond)
			if c, err := f.Commands(config.ID); err != nil || c == nil || c.Reason != "" {
				t.Skipf("no exit records here: %+v, %v", c, err)
			}
			received := make(chan struct{})
			go func() { // ends with the stream
				defer close(received)
				for err := error(nil); err == nil; _, err = stream.Recv() {
				}
			}()
			must(t, os.WriteFile(begin, nil, 0o600))
			f.awaitOutput(config, "ready")
			address := f.executor()
			f.loseExecutor(address.Executor.PID, handle, test.away)
			f.wait(config.ID)
			<-received
			final := testkit.Value(f.FinalRecord(config.ID))(t)
			var ended int64
			if final.Commands != nil {
				for _, row := range final.Commands.Rows {
					if row.Name == "true" {
						ended = row.Processes
					}
				}
			}
			if ended != 3 || len(final.Commands.Gaps) != test.gaps {
				t.Errorf("%d of 3 processes are in the record: %+v", ended, final.Commands)
			}
			if _, err := os.Lstat(address.Folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("directory %s: %v", address.Folder, err)
			}
		})
	}
}

// TestLostOutside has a process leave the task's cgroup before the executor is killed: what the cgroup says is not
// all of the task then.
func TestLostOutside(t *testing.T) {
	f := newFixture(t, nil)
	config := f.shell("exec sleep 1000")
	f.start(config)
	address := f.executor()
	memory := cmp.Or(address.Cgroup.V1["memory"], address.Cgroup.V2)
	if memory == "" {
		t.Skip("the task has no cgroup")
	}
	err := os.WriteFile(filepath.Join(filepath.Dir(memory), "cgroup.procs"), []byte(strconv.Itoa(address.Main.PID)), 0)
	if err != nil {
		t.Skipf("no process can be moved: %v", err)
	}
	stream := testkit.Value(f.TaskStats(t.Context(), config.ID, 20*time.Millisecond))(t)
	for seen := 0.0; seen == 0; {
		s := testkit.Value(stream.Recv())(t)
		seen, _ = s.Task.Number(procstats.TreeLeftMemory)
	}
	must(t, syscall.Kill(address.Executor.PID, syscall.SIGKILL))
	f.wait(config.ID)
	final := testkit.Value(f.FinalRecord(config.ID))(t)
	left := final.Measurements[procstats.TreeLeftMemory.String()]
	if peak := final.Headline[procstats.HeadlineMemoryPeak.String()]; left != 1.0 || peak.Guarantee == procstats.Exact {
		t.Errorf("the record has %v that left, and a peak that is %s", left, peak.Guarantee)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n := testkit.Value(strconv.Atoi(text))(t)
	return n
}

// runs reports whether a process lives; a zombie does not.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// TestReports holds that hosts behind a wire are told what a task uses that does not end, ever less often.
func TestReports(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{0: 24, 23: 1, 24: 24, 25: 23, 48: 48, 100: 92} {
		testkit.Equal(t, driver.UntilReport(age, 24), want, "wait at that age")
	}
	f := newFixture(t, nil)
	f.HurryReports()
	events := f.events()
	f.start(f.shell("sleep 100"))
	all := collect(t, events, "running for ")
	event := all[len(all)-1]
	text := event.Annotations[record.BasisAnnotation]
	r := testkit.Value(record.Decode([]byte(text)))(t)
	span, known := r.Span()
	if r.State != record.Running || !known || span < 0.2 || r.Headline[procstats.HeadlineCPU.String()].Value == nil {
		t.Errorf("%s", text)
	}
	if !strings.HasSuffix(event.Message, "cores on average") {
		t.Errorf("%q", event.Message)
	}
}
