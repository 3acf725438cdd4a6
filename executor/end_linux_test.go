// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
)

func TestExit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		script       string
		code, signal int32
		verdict      record.Verdict
	}{
		{"exit 0", 0, 0, record.Completed},
		{"exit 7", 7, 0, record.Failed},
		{"kill -USR1 $$", 138, 10, record.Signaled},
		{"kill -KILL $$", 137, 9, record.Signaled},
	}
	for _, tt := range tests {
		f := start(t)
		f.run(tt.script)
		var waiting sync.WaitGroup
		exits := make([]*proto.Exit, 3) // any number of callers
		for i := range exits {
			waiting.Go(func() { exits[i], _ = f.wait() })
		}
		waiting.Wait()
		for _, exit := range exits {
			if exit.GetCode() != tt.code || exit.GetSignal() != tt.signal || exit.GetVerdict() != string(tt.verdict) {
				t.Errorf("%s: %v, want code %d, signal %d, %s", tt.script, exit, tt.code, tt.signal, tt.verdict)
			}
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	const script = `trap 'echo got USR1' USR1; trap 'echo got USR2' USR2; trap 'echo bye; exit 0' INT
(trap 'echo child too' USR2; echo ready; while :; do sleep 0.02; done) &
while :; do sleep 0.02; done`
	f := start(t)
	f.run(script)
	f.expect("ready")
	must(t, f.Signal(t.Context(), unix.SIGUSR1, false))
	f.expect("got USR1")
	must(t, f.Signal(t.Context(), unix.SIGUSR2, true))
	f.expect("got USR2")
	f.expect("child too")
	for _, signal := range []unix.Signal{-1, 0, 65, 1000} {
		if err := f.Signal(t.Context(), signal, false); status.Code(err) != codes.InvalidArgument {
			t.Errorf("signal %d: %v", signal, err)
		}
	}
	must(t, f.Signal(t.Context(), unix.SIGINT, false))
	f.wait()
	if err := f.Signal(t.Context(), unix.SIGINT, false); status.Code(err) != codes.NotFound {
		t.Errorf("a signal after the end: %v", err)
	}
	if err := f.Stop(t.Context(), 0, 0); err != nil {
		t.Errorf("a stop after the end: %v", err)
	}
}

// family is a task with everything that is hard to end: a child, a child in a group of its own, and a daemon with a
// session of its own whose parent is gone. None of them ends when it is asked to.
const family = `trap '' TERM HUP INT
(trap '' TERM HUP INT; while :; do sleep 1000; done) &
set -m; (trap '' TERM HUP INT; while :; do sleep 1000; done) & set +m
setsid sh -c '(trap "" TERM HUP INT; setsid sh -c "trap \"\" TERM HUP INT; echo daemon; while :; do sleep 1000; done" &)'
echo ready
`

func TestStopEscalates(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run(family+"while :; do sleep 1000; done", place)
		f.expect("daemon")
		f.expect("ready")
		const grace = 300 * time.Millisecond
		began := time.Now()
		must(t, f.Stop(t.Context(), 0, grace))
		took := time.Since(began)
		if took < grace || took > grace+time.Second {
			t.Errorf("stopped after %s, want the grace of %s and little more", took, grace)
		}
		t.Logf("nothing was left %s after the kill", took-grace)
		f.noneLeftButExecutor()
		exit, _ := f.wait()
		if exit.GetSignal() != 9 || exit.GetVerdict() != string(record.Stopped) {
			t.Errorf("exit %v, want killed and stopped", exit)
		}
	})
}

// noneLeftButExecutor holds that the task is gone with its cgroup.
func (f *fixture) noneLeftButExecutor() {
	f.t.Helper()
	for _, pid := range f.processes() {
		f.t.Errorf("left behind: process %d %q", pid, commandLine(pid))
	}
	f.noCgroupLeft()
}

// A stop that has time is done as soon as nothing is left.
func TestStopIsDoneEarly(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done", place)
		f.expect("ready")
		began := time.Now()
		must(t, f.Stop(t.Context(), 0, time.Minute))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("stopped after %s", took)
		}
		exit, _ := f.wait()
		if exit.GetCode() != 5 || exit.GetVerdict() != string(record.Stopped) || !strings.Contains(f.stdout(), "bye") {
			t.Errorf("exit %v, output %q", exit, f.stdout())
		}
	})
}

// What outlives the main process while the task is stopped has the signal and the grace of the stop, and not those of
// an end without one.
func TestGraceOfLeftovers(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("trap 'exit 3' USR1; (trap 'sleep 1; echo done; exit' USR1; echo ready; while :; do sleep 0.02; done) & while :; do sleep 0.02; done",
		func(r *proto.LaunchRequest) { r.KillGraceNs = (100 * time.Millisecond).Nanoseconds() })
	f.expect("ready")
	must(t, f.Stop(t.Context(), unix.SIGUSR1, time.Minute))
	if exit, _ := f.wait(); exit.GetCode() != 3 || !strings.Contains(f.stdout(), "done") {
		t.Errorf("exit %v, output %q", exit, f.stdout())
	}
}

// A second stop with less time wins over the first.
func TestStopTwice(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run(family + "while :; do sleep 1000; done")
	f.expect("ready")
	var first sync.WaitGroup
	first.Go(func() { testkit.NoError(t, f.Stop(t.Context(), 0, time.Hour)) })
	f.expectEvent("stopping")
	began := time.Now()
	must(t, f.Stop(t.Context(), 0, 0))
	first.Wait()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("stopped after %s", took)
	}
}

func TestStopBySignal(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run("trap 'exit 6' USR1; echo ready; while :; do sleep 0.02; done", func(r *proto.LaunchRequest) {
		r.KillSignal = int32(unix.SIGUSR1)
	})
	f.expect("ready")
	must(t, f.Stop(t.Context(), 0, soon))
	if exit, _ := f.wait(); exit.GetCode() != 6 {
		t.Errorf("exit %v, want 6 by the signal of Launch", exit)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run(family+"while :; do sleep 1000; done", place, func(r *proto.LaunchRequest) {
			r.TimeoutNs, r.KillGraceNs = int64(200*time.Millisecond), int64(100*time.Millisecond)
		})
		exit, _ := f.wait()
		if exit.GetVerdict() != string(record.TimedOut) {
			t.Errorf("exit %v, want that its time was up", exit)
		}
		f.noneLeftButExecutor()
	})
}

// What outlives the main process is asked to end, then killed; the exit is the main process's own.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run(family+"exit 4", place, func(r *proto.LaunchRequest) { r.KillGraceNs = int64(200 * time.Millisecond) })
		exit, final := f.wait()
		if exit.GetCode() != 4 || exit.GetVerdict() != string(record.Failed) ||
			!strings.Contains(exit.GetSummary(), final.Diagnosis.Leftovers.Text()) || len(final.Diagnosis.Leftovers) == 0 {
			t.Errorf("exit %v, want the code of the main process, and what was stopped: %v", exit, final.Diagnosis.Leftovers)
		}
		f.noneLeftButExecutor()
		var kinds []string
		for _, event := range f.allEvents() {
			kinds = append(kinds, event.GetKind())
		}
		at := slices.Index(kinds, "leftovers")
		if at < 0 || at < slices.Index(kinds, "main_exited") || at > slices.Index(kinds, "exited") {
			t.Errorf("events %q, want that what was left over is told of between the two ends", kinds)
		}
	})
}

func TestWaitForAll(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("mkfifo go; (setsid sh -c 'read x < go; echo last') & exit 3", place, func(r *proto.LaunchRequest) { r.WaitForAll = true })
		f.expectEvent("main_exited")
		f.eventually(soon, "the daemon waits", func() bool {
			fd, err := unix.Open(f.dir+"/go", unix.O_WRONLY|unix.O_NONBLOCK, 0) // ENXIO while nobody reads
			if err != nil {
				return false
			}
			defer unix.Close(fd)
			_, err = unix.Write(fd, []byte("\n"))
			return err == nil
		})
		exit, _ := f.wait()
		if exit.GetCode() != 3 || !strings.Contains(f.stdout(), "last") {
			t.Errorf("exit %v, output %q", exit, f.stdout())
		}
	})
}

// Where all are waited for, those that outlive the main process are asked to end as it would have been, and the task
// has not ended by itself then.
func TestWaitForAllEnded(t *testing.T) {
	t.Parallel()
	const grace = soon / 2
	const script = `mkfifo ready
(trap 'echo got TERM; exit' TERM; echo > ready; while :; do sleep 0.02; done) &
read x < ready; exit 0`
	tests := []struct {
		name    string
		timeout time.Duration
		verdict record.Verdict
	}{{"by its timeout", time.Second, record.TimedOut}, {"by a stop", 0, record.Stopped}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
				f := start(t)
				f.run(script, place, func(r *proto.LaunchRequest) {
					r.WaitForAll, r.TimeoutNs, r.KillGraceNs = true, int64(tt.timeout), int64(grace)
				})
				f.expectEvent("main_exited")
				if tt.timeout == 0 {
					must(t, f.Stop(t.Context(), 0, grace))
				}
				exit, _ := f.wait()
				if exit.GetCode() != 0 || exit.GetVerdict() != string(tt.verdict) {
					t.Errorf("exit %v, want code 0 and %s", exit, tt.verdict)
				}
				testkit.Equal(t, f.stdout(), "got TERM\n", "output")
			})
		})
	}
}

// A stop that comes while leftovers are stopped does not change how the task ended.
func TestStopOfLeftovers(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.run(family+"exit 4", func(r *proto.LaunchRequest) { r.KillGraceNs = int64(soon) })
	f.expectEvent("leftovers")
	must(t, f.Stop(t.Context(), 0, time.Millisecond))
	if exit, _ := f.wait(); exit.GetCode() != 4 || exit.GetVerdict() != string(record.Failed) {
		t.Errorf("exit %v, want the code of the main process", exit)
	}
}

// Forks that race with the kill cannot get away.
func TestStopForkStorm(t *testing.T) {
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run(`trap '' TERM
for i in 1 2 3 4; do (trap '' TERM; while :; do (setsid sleep 0.05 &) ; done) & done
echo ready; wait`, place)
		f.expect("ready")
		began := time.Now()
		must(t, f.Stop(t.Context(), 0, 0))
		t.Logf("nothing was left after %s", time.Since(began))
		f.noneLeftButExecutor()
	})
}

// TestAveragesOfOutliving holds that what the last process used is averaged over its time, and not over that of a main
// process which was gone at once.
func TestAveragesOfOutliving(t *testing.T) {
	t.Parallel()
	eachPlacement(t, func(t *testing.T, place func(*proto.LaunchRequest)) {
		f := start(t)
		f.run("timeout 1 sh -c 'while :; do :; done' & exit 0", place, func(r *proto.LaunchRequest) { r.WaitForAll = true })
		_, final := f.wait()
		span, ok := final.Span()
		if !ok || span < 0.9 || final.MainSeconds == nil || *final.MainSeconds >= span || *final.WallSeconds != span {
			t.Fatalf("the last process ended after %v s, the main one not before: %+v", span, final)
		}
		cpu, average := headline(t, final, procstats.HeadlineCPU), headline(t, final, procstats.HeadlineCoresAverage)
		if most := float64(runtime.NumCPU()); average > most || math.Abs(average*span-cpu) > 1e-6 {
			t.Errorf("%v s of CPU in %v s: %v cores on average, of %v", cpu, span, average, most)
		}
	})
}
