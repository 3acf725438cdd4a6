// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-multierror"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
)

// stage is a runner between a scripted driver and a recorder.
type stage struct {
	t      *testing.T
	driver *taskDriver
	record *recorder
	log    *journal
	*hook.Runner

	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // of Run, after done
}

// stageTest runs a test in fake time. The bubble fails when a goroutine is left at the end.
func stageTest(t *testing.T, script []taskStart, config hook.Config, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, driver: &taskDriver{script: script}, record: &recorder{name: "all"}, log: &journal{}}
		if config.Hooks == nil {
			config.Hooks = []hook.Hook{s.record}
		}
		config.Starter, config.Observer, config.Logger = s.driver, s.record, s.log.logger()
		s.Runner = hook.New(config)
		test(t, s)
	})
}

var errAgentStops = errors.New("agent stops")

// run starts Run; what the test does not wait for ends with it.
func (s *stage) run() {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	s.cancel, s.done = cancel, make(chan struct{})
	go func() {
		defer close(s.done)
		s.err = s.Run(ctx)
	}()
	s.t.Cleanup(func() { cancel(errAgentStops) })
}

// wantDead waits for the end of Run and checks the last event and its state.
func (s *stage) wantDead(last hook.EventType, failed bool, restarts int) {
	s.t.Helper()
	<-s.done
	if s.err != nil {
		s.t.Errorf("Run: %v", s.err)
	}
	event, state := s.record.last()
	if event.Type != last || state.Phase != hook.PhaseDead || state.Failed != failed || state.Restarts != restarts {
		s.t.Errorf("last event %q with phase %s, failed %t, %d restarts; want %q with dead, %t, %d",
			event.Type, state.Phase, state.Failed, state.Restarts, last, failed, restarts)
	}
	if state.FinishedAt.IsZero() || !state.RestartAt.IsZero() {
		s.t.Errorf("dead task has FinishedAt %v and RestartAt %v", state.FinishedAt, state.RestartAt)
	}
	testkit.Equal(s.t, s.driver.runningNow(), 0, "tasks outlive the runner")
	s.wantClean()
}

// wantDetached ends Run by its context and checks its error.
func (s *stage) wantDetached() {
	s.t.Helper()
	before := time.Now()
	s.cancel(errAgentStops)
	<-s.done
	if !errors.Is(s.err, errAgentStops) {
		s.t.Errorf("Run: %v, want the cause of its context", s.err)
	}
	if took := time.Since(before); took != 0 {
		s.t.Errorf("Run ended %v after its context", took)
	}
	if phase := s.State().Phase; phase == hook.PhaseDead {
		s.t.Error("the phase of a running task is dead")
	}
}

// wantClean checks what holds for every life: one task at a time, each destroyed once it has ended, one last event, and
// no phase that the task was never in.
func (s *stage) wantClean() {
	s.t.Helper()
	if s.driver.most > 1 {
		s.t.Errorf("%d tasks ran at once", s.driver.most)
	}
	for i, task := range s.driver.tasks {
		if task.destroyed != 1 {
			s.t.Errorf("task %d was destroyed %d times, want once", i, task.destroyed)
		}
	}
	for i, state := range s.record.states {
		if dead := state.Phase == hook.PhaseDead; dead != (i == len(s.record.states)-1) {
			s.t.Errorf("event %d (%s) has phase %s", i, s.record.events[i].Type, state.Phase)
		}
		if i > 0 {
			s.wantTrue(s.record.events[i-1].Type, s.record.states[i-1], s.record.events[i].Type, state)
		}
	}
}

// wantTrue checks a phase that an event led to from an earlier state: a pending task is started next, or was to be.
func (s *stage) wantTrue(earlier hook.EventType, before hook.State, kind hook.EventType, now hook.State) {
	s.t.Helper()
	noStart := earlier == hook.EventDriverFailure || earlier == hook.EventHookFailed
	begins := kind == hook.EventStarted || kind == hook.EventRecovered
	switch {
	case now.Phase == hook.PhasePending && !now.StartedAt.IsZero() && now.RestartAt.IsZero(),
		now.Phase == hook.PhasePending && before.Phase == hook.PhaseRunning && kind != hook.EventRestarting,
		now.Phase == hook.PhaseRunning && before.Phase != hook.PhaseRunning && !begins,
		now.Phase == hook.PhaseDead && before.Phase == hook.PhasePending && kind != hook.EventKilled && !noStart:
		s.t.Errorf("%s after %s: phase %s after %s; next start %v", kind, earlier, now.Phase, before.Phase, now.RestartAt)
	}
}

// TestRunnerShowsWhatIsTrue lives random lives.
func TestRunnerShowsWhatIsTrue(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		some := func(longest time.Duration) time.Duration { return time.Duration(1 + r.Int64N(int64(longest))) }
		script := make([]taskStart, 1+r.IntN(5))
		for i := range script {
			script[i] = taskStart{takes: some(time.Second), runs: some(time.Minute), obeys: r.IntN(2) == 0}
			script[i].exit = []hook.Exit{{}, {Code: 1}, hostOOM(), {Lost: "its executor is gone"}}[r.IntN(4)]
			if r.IntN(4) == 0 {
				script[i].err = errors.New("no such file")
			}
		}
		policy := hook.RestartPolicy{Attempts: r.IntN(3), Mode: hook.RestartModeFail, Interval: time.Hour, Delay: some(time.Minute), OnSuccess: r.IntN(2) == 0}
		stageTest(t, script, hook.Config{Restart: policy, Retry: always}, func(t *testing.T, s *stage) {
			s.run()
			for range r.IntN(8) {
				after(some(time.Minute))
				_ = s.Restart("requested by a user") // may be dead
			}
			after(some(10 * time.Minute))
			s.Stop("enough")
			<-s.done
			if s.wantClean(); t.Failed() {
				t.Fatalf("seed %d: %v", seed, s.record.types())
			}
		})
	}
}

// restart asks for a restart, and kill ends the task and the test's run.
func (s *stage) restart(reason string) {
	s.t.Helper()
	wantErr(s.t, s.Restart(reason), nil)
}

func (s *stage) kill(restarts int) {
	s.t.Helper()
	s.Stop("enough")
	s.wantDead(hook.EventKilled, false, restarts)
}

func (s *stage) wantStartCount(want int) {
	s.t.Helper()
	if n := s.driver.startCount(); n != want {
		s.t.Errorf("%d starts, want %d", n, want)
	}
}

// wantErr compares an error; nil is success.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// same compares what happened with what should have.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	testkit.Diff(t, what, want, got)
}

func (s *stage) wantSeen(want ...string) {
	s.t.Helper()
	same(s.t, "what happened", want, s.record.seen())
}

// wantStarts checks when the task was started, in seconds after the first start. The jitter of a delay is a quarter.
func (s *stage) wantStarts(seconds ...float64) {
	s.t.Helper()
	s.driver.mu.Lock()
	defer s.driver.mu.Unlock()
	if len(s.driver.starts) != len(seconds) {
		s.t.Fatalf("%d starts, want %d", len(s.driver.starts), len(seconds))
	}
	for i, least := range seconds {
		got := s.driver.starts[i].Sub(s.driver.starts[0]).Seconds()
		if got < least || got > least*1.25 {
			s.t.Errorf("start %d after %.3f s, want %.3f to a quarter more", i, got, least)
		}
	}
}

var (
	service = hook.RestartPolicy{Attempts: 2, Interval: 30 * time.Minute, Delay: 15 * time.Second, Mode: hook.RestartModeFail, OnSuccess: true}
	batch   = hook.RestartPolicy{Attempts: 3, Interval: 24 * time.Hour, Delay: 15 * time.Second, Mode: hook.RestartModeFail}
)

func TestRunnerOrder(t *testing.T) {
	script := []taskStart{{runs: time.Second, exit: hook.Exit{Code: 1}}, {runs: time.Second}}
	stageTest(t, script, hook.Config{Restart: batch}, func(t *testing.T, s *stage) {
		s.run()
		s.wantDead(hook.EventCompleted, false, 1)
		s.wantSeen(
			"event Task Setup", "prestart 0", "event Started", "poststart",
			"event Terminated", "exited 1", "event Restarting",
			"event Task Setup", "prestart 1", "event Started", "poststart",
			"event Terminated", "exited 0", "stop", "event Completed",
		)
		s.wantStarts(0, 16)
	})
}

func TestRunnerCallsHooksInOrder(t *testing.T) {
	first, second := &recorder{name: "first"}, &recorder{name: "second"}
	second.fails = map[string]error{"prestart": errBroken}
	third := &recorder{name: "third"}
	stageTest(t, []taskStart{{}}, hook.Config{Hooks: []hook.Hook{first, named{}, second, third}}, func(t *testing.T, s *stage) {
		s.run()
		s.wantDead(hook.EventNotRestarting, true, 0)
		for _, c := range []struct {
			hook *recorder
			want []string
		}{{first, []string{"prestart 0", "stop"}}, {second, []string{"prestart 0", "stop"}}, {third, []string{"stop"}}} {
			testkit.Diff(t, fmt.Sprintf("hook %s", c.hook.name), c.want, c.hook.seen())
		}
		if s.driver.startCount() != 0 {
			t.Error("the task was started although its prestart hook failed")
		}
		s.wantSeen("event Task Setup", "event Task hook failed", "event Not Restarting")
		testkit.Equal(t, s.record.events[1].Message, "prestart hook second: connection is broken", "message")
	})
}

// named is a hook without a phase.
type named struct{}

func (named) Name() string { return "named" }

// slowEnd is an exited hook that takes all its time.
type slowEnd struct{ named }

func (slowEnd) Exited(ctx context.Context, _ *hook.ExitedRequest) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRunnerHookErrors(t *testing.T) {
	for _, phase := range []string{"poststart", "exited", "stop"} {
		t.Run(phase, func(t *testing.T) {
			stageTest(t, []taskStart{{runs: time.Second}}, hook.Config{Restart: batch}, func(t *testing.T, s *stage) {
				s.record.fails = map[string]error{phase: errBroken}
				s.run()
				s.wantDead(hook.EventCompleted, false, 0)
				if _, errors := s.log.counts(); errors != 1 {
					t.Errorf("%d errors in the log, want 1", errors)
				}
			})
		})
	}
	t.Run("two hooks of a stage", func(t *testing.T) {
		stageTest(t, []taskStart{{runs: time.Second}}, hook.Config{Restart: batch}, func(t *testing.T, s *stage) {
			config := hook.Config{Starter: s.driver, Logger: s.log.logger().With("alloc_id", "7ab1", "task", "web")}
			for _, name := range []string{"first", "second", "third"} {
				r := &recorder{name: name}
				if name != "second" {
					r.fails = map[string]error{"exited": fmt.Errorf("%s: %w", name, errBroken)}
				}
				config.Hooks = append(config.Hooks, r)
			}
			s.Runner = hook.New(config)
			s.run()
			<-s.done
			lines := s.log.at(hclog.Error)
			if len(lines) != 1 {
				t.Fatalf("%d lines at error level, want 1", len(lines))
			}
			err, _ := lines[0].args["error"].(error)
			want := "hook first: first: connection is broken\nhook third: third: connection is broken"
			var list *multierror.Error
			if !errors.As(err, &list) || err.Error() != want || !errors.Is(err, errBroken) {
				t.Errorf("logged %v (%T), want %s", err, err, want)
			}
			if lines[0].args["task"] != "web" || lines[0].args["alloc_id"] != "7ab1" || lines[0].text != "exited hooks" {
				t.Errorf("logged %+v, want stage, task and allocation", lines[0])
			}
		})
	})
	t.Run("a hook uses up its context", func(t *testing.T) {
		stageTest(t, []taskStart{{runs: time.Second}}, hook.Config{}, func(t *testing.T, s *stage) {
			s.Runner = hook.New(hook.Config{Starter: s.driver, Hooks: []hook.Hook{slowEnd{}, s.record}, Observer: s.record})
			s.run()
			s.wantDead(hook.EventCompleted, false, 0)
			if !slices.Contains(s.record.seen(), "exited 0") {
				t.Errorf("the next hook got no time: %v", s.record.seen())
			}
		})
	})
	t.Run("prestart, recoverable", func(t *testing.T) {
		stageTest(t, []taskStart{{}}, hook.Config{Restart: batch}, func(t *testing.T, s *stage) {
			s.record.fails = map[string]error{"prestart": flaw(true)}
			s.run()
			s.wantDead(hook.EventNotRestarting, true, 3)
		})
	})
	t.Run("shutdown", func(t *testing.T) {
		stageTest(t, []taskStart{{}}, hook.Config{}, func(t *testing.T, s *stage) {
			s.record.fails = map[string]error{"shutdown": errBroken}
			s.run()
			after(time.Second)
			s.wantDetached()
			if _, errors := s.log.counts(); errors != 1 {
				t.Errorf("%d errors in the log, want 1", errors)
			}
			s.driver.tasks[0].die(hook.Exit{})
		})
	})
}

func TestRunnerRestartPolicy(t *testing.T) {
	delayMode := batch
	delayMode.Mode, delayMode.Attempts, delayMode.Interval = hook.RestartModeDelay, 1, time.Minute
	short := service
	short.Interval = 30 * time.Second
	never := hook.RestartPolicy{OnSuccess: true}
	delayedNever := hook.RestartPolicy{Mode: hook.RestartModeDelay, Interval: time.Minute}
	tight := hook.RestartPolicy{Attempts: 1, Interval: 30 * time.Second, Mode: hook.RestartModeFail}
	longer := taskStart{runs: 20 * time.Second, exit: hook.Exit{Code: 1}}
	fails, ends := taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}, taskStart{runs: time.Second}
	cases := map[string]struct {
		policy   hook.RestartPolicy
		script   []taskStart
		last     hook.EventType
		restarts int
		message  string
		starts   []float64
	}{
		"batch succeeds":        {batch, []taskStart{ends}, hook.EventCompleted, 0, "task completed", []float64{0}},
		"batch succeeds later":  {batch, []taskStart{fails, fails, ends}, hook.EventCompleted, 2, "task completed", []float64{0, 16, 32}},
		"batch fails":           {batch, []taskStart{fails}, hook.EventNotRestarting, 3, `exceeded 3 attempts in 24h0m0s, mode is "fail"`, []float64{0, 16, 32, 48}},
		"service succeeds":      {service, []taskStart{ends}, hook.EventNotRestarting, 2, `exceeded 2 attempts in 30m0s, mode is "fail"`, []float64{0, 16, 32}},
		"new interval":          {short, []taskStart{fails, fails, fails, {err: errBroken}}, hook.EventNotRestarting, 3, "error was unrecoverable", []float64{0, 16, 32, 48}},
		"interval from start":   {tight, []taskStart{longer}, hook.EventNotRestarting, 2, `exceeded 1 attempt in 30s, mode is "fail"`, []float64{0, 20, 40}},
		"no attempts":           {never, []taskStart{ends}, hook.EventNotRestarting, 0, "policy allows no restarts", []float64{0}},
		"no attempts, delay":    {delayedNever, []taskStart{fails}, hook.EventNotRestarting, 0, "policy allows no restarts", []float64{0}},
		"delay mode":            {delayMode, []taskStart{fails, fails, fails, ends}, hook.EventCompleted, 3, "task completed", []float64{0, 16, 60, 76}},
		"start fails":           {batch, []taskStart{{err: errBroken}}, hook.EventNotRestarting, 0, "error was unrecoverable", []float64{0}},
		"start may be repeated": {batch, []taskStart{{err: flaw(true)}, ends}, hook.EventCompleted, 1, "task completed", []float64{0, 15}},
		"start must not":        {batch, []taskStart{{err: flaw(false)}}, hook.EventNotRestarting, 0, "error was unrecoverable", []float64{0}},
		"signal is no success":  {batch, []taskStart{{runs: time.Second, exit: hook.Exit{Signal: 9}}, ends}, hook.EventCompleted, 1, "task completed", []float64{0, 16}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stageTest(t, c.script, hook.Config{Restart: c.policy}, func(t *testing.T, s *stage) {
				s.run()
				s.wantDead(c.last, c.last == hook.EventNotRestarting, c.restarts)
				if event, _ := s.record.last(); event.Message != c.message {
					t.Errorf("message %q, want %q", event.Message, c.message)
				}
				s.wantStarts(c.starts...)
			})
		})
	}
}

func TestRunnerStartWaitsForRestartingPlugin(t *testing.T) {
	restarting := taskStart{err: hook.ErrPluginRestarting}
	stageTest(t, []taskStart{restarting, restarting, {runs: time.Second}}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		<-s.done
		s.wantStartCount(3)
		if state := s.State(); state.Restarts != 0 || state.Exit == nil || !state.Exit.Successful() {
			t.Errorf("state = %+v, want one run without restarts", state)
		}
		if debugs, errors := s.log.counts(); debugs != 2 || errors != 0 {
			t.Errorf("log has %d debug lines and %d errors, want 2 and 0", debugs, errors)
		}
	})
	stageTest(t, []taskStart{restarting}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Minute)
		s.Stop("not wanted")
		s.wantDead(hook.EventKilled, false, 0)
	})
}

func TestRunnerWaitErrors(t *testing.T) {
	cases := map[string]struct {
		errs       []error
		lost       bool
		logErrors  int
		wantEvents hook.EventType
	}{
		"plugin restarts": {[]error{hook.ErrPluginRestarting, hook.ErrPluginRestarting}, false, 0, hook.EventCompleted},
		"broken":          {[]error{errBroken, errBroken, errBroken}, false, 1, hook.EventCompleted},
		"unrecoverable":   {[]error{errBroken, flaw(false)}, true, 1, hook.EventCompleted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			script := []taskStart{{runs: time.Minute, waitErrs: c.errs}, {runs: time.Second}}
			stageTest(t, script, hook.Config{}, func(t *testing.T, s *stage) {
				s.run()
				<-s.done
				restarts := 0
				if c.lost {
					restarts = 1 // as no attempt
				}
				s.wantDead(c.wantEvents, false, restarts)
				if c.lost { // a task that is not seen must not run beside its successor
					same(t, "calls", []string{"stop SIGKILL 0s"}, s.driver.tasks[0].calls)
				}
				if _, errors := s.log.counts(); errors != c.logErrors {
					t.Errorf("%d errors in the log, want %d", errors, c.logErrors)
				}
			})
		})
	}
}

// shallow fails a start, and says whether it was called in the runner's goroutine.
type shallow struct{ inRunner bool }

func (s *shallow) Start(context.Context) (hook.Handle, error) {
	s.inRunner = strings.Contains(string(debug.Stack()), "(*Runner).Run(")
	return nil, errors.New("no start")
}

// TestStartHasItsOwnStack: a driver's start is deep, and a stack that has grown stays as large for as long as the
// task runs.
func TestStartHasItsOwnStack(t *testing.T) {
	starter := &shallow{inRunner: true}
	if err := hook.New(hook.Config{Starter: starter}).Run(t.Context()); err != nil || starter.inRunner {
		t.Errorf("started by the runner's goroutine: %v, %v", starter.inRunner, err)
	}
}
