// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
)

// lack is an error of a start that the host is at fault for.
type lack struct{ error }

func (lack) HostFault() bool { return true }

// TestCauses holds on whose account each end is, and that only the task's own spend attempts, also in a run of the
// agent that was killed before it decided.
func TestCauses(t *testing.T) {
	t.Parallel()
	done := taskStart{runs: time.Second}
	ends := map[string]struct {
		start taskStart
		act   func(*stage)
		cause hook.Cause
		spent bool
	}{
		"exit":         {start: taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}, cause: hook.CauseTask, spent: true},
		"own OOM kill": {start: taskStart{runs: time.Second, exit: hook.Exit{Code: 137, OOMKilled: true}}, cause: hook.CauseTask, spent: true},
		"lost":         {start: taskStart{runs: time.Second, exit: hook.Exit{Lost: "its executor died"}}, cause: hook.CauseHost},
		"memory":       {start: taskStart{runs: time.Second, exit: hostOOM()}, cause: hook.CauseHost},
		"restart": {
			start: taskStart{obeys: true}, cause: hook.CauseOperator,
			act: func(s *stage) { testkit.Must(s.t, s.Restart("asked for")) },
		},
	}
	for name, end := range ends {
		for attempts := range 2 {
			for _, onSuccess := range []bool{true, false} {
				policy := hook.RestartPolicy{Attempts: attempts, Interval: time.Hour, Mode: hook.RestartModeFail, OnSuccess: onSuccess}
				config := hook.Config{Restart: policy, Retry: always}
				stageTest(t, []taskStart{end.start, {}}, config, func(t *testing.T, s *stage) {
					s.run()
					after(500 * time.Millisecond)
					if end.act != nil {
						end.act(s)
					}
					after(time.Minute)
					state := s.State()
					if state.Exit == nil || state.Exit.Cause != end.cause {
						t.Errorf("%s, %d attempts: exit %+v, want cause %s", name, attempts, state.Exit, end.cause)
					}
					spent := state.Window.Used > 0 || state.Failed
					if spent != end.spent || state.Failed != (end.spent && attempts == 0) {
						t.Errorf("%s, %d attempts: state %+v, want attempt spent: %t", name, attempts, state, end.spent)
					}
					s.Stop("end of test")
					<-s.done
				})
			}
		}
	}
	stageTest(t, []taskStart{{err: lack{errors.New("too many open files")}}, done}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		s.wantDead(hook.EventCompleted, false, 1)
	})
	stageTest(t, []taskStart{{obeys: true}}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Second)
		s.Stop("not wanted")
		s.wantDead(hook.EventKilled, false, 0)
		if exit := s.State().Exit; exit.Cause != hook.CauseOperator {
			t.Errorf("%+v", exit)
		}
	})
}

// TestStartsThatTheHostPreventsAreBounded holds that retries of a start that never succeeds become rarer and end, also
// if the task ran before, and that one that ran in between is retried as often again.
func TestStartsThatTheHostPreventsAreBounded(t *testing.T) {
	t.Parallel()
	never := taskStart{err: lack{errors.New("too many open files")}}
	row := make([]taskStart, 11)
	for i := range row {
		row[i] = never
	}
	ran := taskStart{runs: time.Hour, exit: hook.Exit{Lost: "its executor died"}}
	for name, script := range map[string][]taskStart{
		"at first": row, "after a run": append([]taskStart{ran}, row[:10]...), "twice": slices.Concat(row[:10], []taskStart{ran}, row[:10]),
	} {
		done := append(script, taskStart{}) // of one that is not given up
		stageTest(t, done, hook.Config{Restart: hook.RestartPolicy{Delay: time.Second}}, func(t *testing.T, s *stage) {
			s.run()
			s.wantDead(hook.EventNotRestarting, true, len(script)-1)
			if took := time.Since(s.State().StartedAt); name == "after a run" && took < 20*time.Minute {
				t.Errorf("%s: given up after %s", name, took)
			}
		})
	}
}

// TestWaitOverSuspend holds that the time for which the machine is suspended counts, and that a clock that is set does
// not.
func TestWaitOverSuspend(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		boot                  string
		suspended, set, waits time.Duration
	}{
		"not suspended":          {"b", 0, 0, time.Hour},
		"shorter than the delay": {"b", 20 * time.Minute, -24 * time.Hour, 40 * time.Minute},
		"longer":                 {"b", 8 * time.Hour, 24 * time.Hour, 10 * time.Minute},
		"unknown, set back":      {"", 0, -24 * time.Hour, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			clock := func() hook.Instant {
				now := hook.Instant{Wall: time.Now(), Boot: test.boot, Up: time.Since(began)}
				if now.Up >= 10*time.Minute {
					now.Wall, now.Up = now.Wall.Add(test.set), now.Up+test.suspended
				}
				return now
			}
			for left := range hook.Waits(clock, time.Hour) {
				<-time.After(left)
			}
			if waited := time.Since(began); (waited - test.waits).Abs() > 30*time.Second {
				t.Errorf("%s: waited for %s, want %s", name, waited, test.waits)
			}
		})
	}
}

// TestRestartOverSteps holds that a task whose agent was killed is started again in time, however the clock was set.
func TestRestartOverSteps(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{0, 6 * time.Hour, -6 * time.Hour, -24 * time.Hour, 13 * 365 * 24 * time.Hour} {
		for boot, exact := range map[string]bool{"same": true, "next": false} {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				clock := func() hook.Instant { // the bubble's clock, set by step
					return hook.Instant{Wall: time.Now().Add(step), Boot: boot, Up: time.Hour + time.Since(now)}
				}
				from := hook.Instant{Wall: now.Add(-4 * time.Second), Boot: "same", Up: time.Hour - 4*time.Second}
				state := hook.State{
					Phase: hook.PhasePending, Exit: &hook.Exit{Code: 1}, Restarts: 1, RestartAt: from.Wall.Add(10 * time.Second),
					Restart: hook.Deadline{From: from, Delay: 10 * time.Second},
				}
				driver := &taskDriver{script: []taskStart{{runs: time.Second}}}
				r := hook.New(hook.Config{Starter: driver, State: state, Now: clock, Restart: batch})
				testkit.Must(t, r.Run(t.Context()))
				waited := time.Since(now) - time.Second
				if waited < 0 || waited > 10*time.Second || exact && waited != 6*time.Second {
					t.Errorf("boot %s, clock set by %s: started after %s", boot, step, waited)
				}
			})
		}
	}
}

// TestPluginGone has the plugin of a driver killed at each call: no attempt is spent, and the task is not at fault.
func TestPluginGone(t *testing.T) {
	t.Parallel()
	gone := errors.New("rpc error: plugin is shut down")
	for name, script := range map[string][]taskStart{
		"during a start":  {{err: gone}, {err: hook.ErrPluginRestarting}, {runs: time.Second}},
		"while it runs":   {{runs: time.Minute, waitErrs: []error{gone, hook.ErrPluginRestarting, gone}}},
		"and its task":    {{runs: time.Second, exit: hook.Exit{Lost: "the plugin does not know it"}}, {runs: time.Second}},
		"again and again": {{err: gone}, {err: gone}, {runs: time.Second, waitErrs: []error{gone, gone}}},
	} {
		for attempts := range 2 {
			policy := hook.RestartPolicy{Attempts: attempts, Interval: time.Hour, Mode: hook.RestartModeFail}
			stageTest(t, script, hook.Config{Restart: policy}, func(t *testing.T, s *stage) {
				s.run()
				<-s.done
				if state := s.State(); state.Failed || state.Window.Used != 0 || state.Cause != "" {
					t.Errorf("%s, %d attempts: %+v", name, attempts, state)
				}
			})
		}
	}
}

// TestWindowOverSteps holds that a step of the clock and a kill of the agent neither give an attempt back nor take one.
func TestWindowOverSteps(t *testing.T) {
	t.Parallel()
	policy := hook.RestartPolicy{Attempts: 1, Interval: time.Hour, Mode: hook.RestartModeFail}
	const age = 13 * 365 * 24 * time.Hour
	for _, step := range []time.Duration{0, 6 * time.Hour, -6 * time.Hour, -24 * time.Hour, age, -age} {
		for passed, fails := range map[time.Duration]bool{50 * time.Minute: true, 70 * time.Minute: false} {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				clock := func() hook.Instant {
					return hook.Instant{Wall: time.Now().Add(step), Boot: "this", Up: 2*time.Hour + time.Since(now)}
				}
				from := hook.Instant{Wall: now.Add(-passed), Boot: "this", Up: 2*time.Hour - passed}
				state := hook.State{
					Phase: hook.PhasePending, Exit: &hook.Exit{Code: 1}, Window: hook.RestartWindow{From: from, Used: 1},
				}
				driver := &taskDriver{script: []taskStart{{runs: time.Second}}}
				r := hook.New(hook.Config{Starter: driver, State: state, Now: clock, Restart: policy})
				testkit.Must(t, r.Run(t.Context()))
				if r.State().Failed != fails || fails && r.State().Cause != hook.CauseTask {
					t.Errorf("clock set by %s, %s after the first: %+v", step, passed, r.State())
				}
			})
		}
	}
}

// TestDelayOfAnEarlierBuild goes on with a delay that is persisted as the time of its end only.
func TestDelayOfAnEarlierBuild(t *testing.T) {
	t.Parallel()
	const delay = 10 * time.Second
	for _, step := range []time.Duration{0, 6 * time.Hour, -24 * time.Hour, 13 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			clock := func() hook.Instant {
				return hook.Instant{Wall: time.Now().Add(step), Boot: "this", Up: time.Hour + time.Since(began)}
			}
			decided := began.Add(-4 * time.Second)
			state := hook.State{
				Phase: hook.PhasePending, Exit: &hook.Exit{Code: 1}, LastRestart: decided, RestartAt: decided.Add(delay),
			}
			driver := &taskDriver{script: []taskStart{{runs: time.Second}}}
			r := hook.New(hook.Config{Starter: driver, State: state, Now: clock, Restart: batch})
			testkit.Must(t, r.Run(t.Context()))
			waited := time.Since(began) - time.Second
			if waited < 0 || waited > delay || step == 0 && waited != 6*time.Second {
				t.Errorf("clock set by %s: started after %s", step, waited)
			}
		})
	}
}
