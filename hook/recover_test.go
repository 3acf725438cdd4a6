// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestRunnerShutdownLeavesTheTask(t *testing.T) {
	stageTest(t, []taskStart{{}}, hook.Config{Restart: service}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Minute)
		s.wantDetached()
		s.wantSeen("event Task Setup", "prestart 0", "event Started", "poststart", "shutdown")
		if calls := s.driver.tasks[0].calls; len(calls) != 0 || s.driver.runningNow() != 1 {
			t.Errorf("a task that is left alone got %v, running: %d", calls, s.driver.runningNow())
		}
		if phase := s.State().Phase; phase != hook.PhaseRunning {
			t.Errorf("phase %s, want running", phase)
		}
		s.driver.tasks[0].die(hook.Exit{})
	})
}

func TestRunnerShutdownBesidesRunning(t *testing.T) {
	fails := taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}
	for name, task := range map[string]taskStart{
		"while it starts":       {takes: time.Hour},
		"while the start waits": {err: hook.ErrPluginRestarting},
		"during the delay":      fails,
		"while wait fails":      {runs: 8 * time.Second, waitErrs: []error{errBroken, errBroken, errBroken}},
	} {
		t.Run(name, func(t *testing.T) {
			stageTest(t, []taskStart{task}, hook.Config{Restart: service}, func(t *testing.T, s *stage) {
				s.run()
				after(5*time.Second + time.Millisecond)
				before := len(s.record.seen())
				s.wantDetached()
				same(t, "what happened", []string{"shutdown"}, s.record.seen()[before:])
			})
		})
	}
}

func TestRunnerShutdownJoinsTheWait(t *testing.T) {
	stageTest(t, []taskStart{{lingers: time.Second}}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Minute)
		before := time.Now()
		s.cancel(errAgentStops)
		<-s.done
		if took := time.Since(before); took != time.Second {
			t.Errorf("Run ended after %v, its Wait after 1s", took)
		}
		s.driver.tasks[0].die(hook.Exit{})
	})
}

func TestRunnerShutdownDuringKill(t *testing.T) {
	stageTest(t, []taskStart{{obeys: true, ends: time.Hour}}, hook.Config{KillTimeout: 2 * time.Hour}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Second)
		s.Stop("slowly")
		after(time.Second)
		s.wantDetached()
		s.driver.tasks[0].die(hook.Exit{})
	})
}

func TestRunnerRecoversARunningTask(t *testing.T) {
	earlier := hook.State{Phase: hook.PhaseRunning, Restarts: 2, StartedAt: time.Unix(1e9, 0)}
	fails := taskStart{runs: time.Minute, exit: hook.Exit{Code: 1}}
	policy := batch
	policy.Attempts = 2
	recoverTest(t, fails, hook.Config{Restart: policy, State: earlier}, func(t *testing.T, s *stage) {
		s.driver.script = []taskStart{{runs: time.Second}}
		s.run()
		after(time.Second)
		if state := s.State(); state.StartedAt != earlier.StartedAt || state.Restarts != 2 || state.Phase != hook.PhaseRunning {
			t.Errorf("state = %+v, want the earlier one", state)
		}
		s.wantDead(hook.EventCompleted, false, 3)
		s.wantSeen(
			"event Recovered", "poststart recovered", "event Terminated", "exited 1", "event Restarting",
			"event Task Setup", "prestart 3", "event Started", "poststart", "event Terminated", "exited 0", "stop", "event Completed",
		)
	})
}

// recoverTest is a stageTest whose task runs before the runner does.
func recoverTest(t *testing.T, running taskStart, config hook.Config, test func(t *testing.T, s *stage)) {
	t.Helper()
	stageTest(t, nil, config, func(t *testing.T, s *stage) {
		config.Hooks = []hook.Hook{s.record}
		config.Starter, config.Observer, config.Logger = s.driver, s.record, s.log.logger()
		config.Recovered = s.driver.add(running)
		s.Runner = hook.New(config)
		test(t, s)
	})
}

func TestRunnerStopsARecoveredTask(t *testing.T) {
	recoverTest(t, taskStart{obeys: true}, hook.Config{State: hook.State{Phase: hook.PhaseRunning}}, func(t *testing.T, s *stage) {
		s.Stop("stopped while the agent was away")
		s.run()
		s.wantDead(hook.EventKilled, false, 0)
		s.wantSeen("event Recovered", "poststart recovered", "event Killing", "event Terminated", "exited 143", "stop", "event Killed")
		if s.driver.startCount() != 0 {
			t.Error("a recovered task was started")
		}
	})
}

// A restart that was requested is finished by a later run of the agent, and the policy, which allows none, is not
// asked.
func TestRunnerFinishesARequestedRestart(t *testing.T) {
	long := time.Unix(4e9, 0)
	killed := hook.Exit{Code: 143, Signal: 15}
	cases := map[string]struct {
		state hook.State
		task  *taskStart // nil if it does not run any more
	}{
		"before the kill":           {hook.State{Phase: hook.PhaseRunning}, &taskStart{obeys: true}},
		"in the grace":              {hook.State{Phase: hook.PhaseRunning}, &taskStart{runs: time.Nanosecond, exit: killed}},
		"ended, not decided over":   {hook.State{Phase: hook.PhaseRunning, Ended: true, Exit: &killed}, nil},
		"running and not recovered": {hook.State{Phase: hook.PhaseRunning}, nil},
		"in the delay":              {hook.State{Phase: hook.PhasePending, Exit: &killed, RestartAt: long}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.state.RestartRequested = "requested by a user"
			config := hook.Config{State: c.state}
			life := func(t *testing.T, s *stage) {
				s.driver.script = []taskStart{{obeys: true}}
				s.run()
				after(time.Second)
				if state := s.State(); s.driver.startCount() != 1 || state.Phase != hook.PhaseRunning || state.Window.Used != 0 ||
					state.RestartRequested != "" {
					t.Errorf("%d starts, state %+v; want one, and no attempt", s.driver.startCount(), state)
				}
				after(time.Hour) // it is not restarted again
				s.kill(s.State().Restarts)
				s.wantStartCount(1)
			}
			if c.task != nil {
				recoverTest(t, *c.task, config, life)
			} else {
				stageTest(t, nil, config, life)
			}
		})
	}
}

// A signal that may not have been sent is sent by a later run of the agent, once.
func TestRunnerFinishesASignal(t *testing.T) {
	earlier := hook.State{Phase: hook.PhaseRunning, Signal: "SIGHUP"}
	recoverTest(t, taskStart{obeys: true}, hook.Config{State: earlier}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Second)
		if calls := s.driver.tasks[0].calls; !slices.Equal(calls, []string{"signal SIGHUP"}) || s.State().Signal != "" {
			t.Errorf("calls %v, state %+v", calls, s.State())
		}
		s.kill(0)
		s.wantSeen("event Recovered", "poststart recovered", "event Signaled", "event Killing", "event Terminated", "exited 143", "stop",
			"event Killed")
	})
}

// A restart of the agent must not give a failing task new attempts, nor spare it a delay.
func TestRunnerKeepsAttemptsOverRestarts(t *testing.T) {
	fails := taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}
	stageTest(t, []taskStart{fails}, hook.Config{Restart: service}, func(t *testing.T, s *stage) {
		s.run()
		after(3 * time.Second)
		s.wantDetached()
		state := s.State()
		after(2 * time.Second)

		config := hook.Config{Starter: s.driver, Observer: s.record, Hooks: []hook.Hook{s.record}, Restart: service, State: state}
		s.Runner = hook.New(config)
		s.run()
		s.wantDead(hook.EventNotRestarting, true, 2)
		s.wantStarts(0, 16, 32)
	})
}

func TestRunnerStateLeftBehind(t *testing.T) {
	long := time.Unix(4e9, 0) // the clock of the bubble begins in 2000
	cases := map[string]struct {
		state    hook.State
		last     hook.EventType
		restarts int
		starts   int
		within   time.Duration
	}{
		"running and not recovered is lost":   {hook.State{Phase: hook.PhaseRunning}, hook.EventCompleted, 1, 1, 20 * time.Second},
		"delay from before the clock was set": {hook.State{Restarts: 1, RestartAt: long, Restart: hook.Deadline{From: hook.Instant{Wall: long}, Delay: 24 * time.Hour}}, hook.EventCompleted, 1, 1, 25 * time.Hour},
		"completed, not persisted":            {hook.State{Phase: hook.PhasePending, Exit: &hook.Exit{}}, hook.EventCompleted, 0, 0, 0},
		"completed, not decided over":         {hook.State{Phase: hook.PhaseRunning, Ended: true, Exit: &hook.Exit{}}, hook.EventCompleted, 0, 0, 0},
		"failed, not decided over":            {hook.State{Phase: hook.PhaseRunning, Ended: true, Exit: &hook.Exit{Code: 1}}, hook.EventCompleted, 1, 1, 20 * time.Second},
		"ended in an earlier build":           {hook.State{Phase: hook.PhasePending, Exit: &hook.Exit{Code: 1}}, hook.EventCompleted, 1, 1, 20 * time.Second},
		"killed while it was started again":   {hook.State{Restarts: 1, Exit: &hook.Exit{Code: 1}, RestartAt: time.Unix(1, 0)}, hook.EventCompleted, 1, 1, time.Second},
		"clock was set back":                  {hook.State{Exit: &hook.Exit{Code: 1}, Window: hook.RestartWindow{From: hook.Instant{Wall: long}, Used: 3}}, hook.EventCompleted, 1, 1, 20 * time.Second},
		"delay that is over":                  {hook.State{Restarts: 1, RestartAt: time.Unix(1, 0)}, hook.EventCompleted, 1, 1, time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stageTest(t, []taskStart{{runs: time.Second}}, hook.Config{Restart: batch, State: c.state}, func(t *testing.T, s *stage) {
				before := time.Now()
				s.run()
				s.wantDead(c.last, false, c.restarts)
				s.wantStartCount(c.starts)
				if took := time.Since(before); took > c.within {
					t.Errorf("the task's life took %v, want at most %v", took, c.within)
				}
			})
		})
	}
	t.Run("lost", func(t *testing.T) {
		// It is the host's end: a policy without attempts starts the task again.
		now := hook.Instant{Wall: time.Now(), Boot: "now", Up: time.Minute}
		for boot, want := range map[string]string{"now": "could not be recovered", "before": "the machine was restarted"} {
			state := hook.State{Phase: hook.PhaseRunning, Started: hook.Instant{Wall: now.Wall, Boot: boot}}
			config := hook.Config{State: state, Now: func() hook.Instant { return now }}
			stageTest(t, []taskStart{{runs: time.Second}}, config, func(t *testing.T, s *stage) {
				s.run()
				s.wantDead(hook.EventCompleted, false, 1)
				testkit.Equal(t, s.State().Window.Used, 0, "attempts used")
				ends := s.record.messages(hook.EventTerminated)
				if len(ends) != 2 || !strings.Contains(ends[0], want) {
					t.Errorf("ends %q, want one that says %q", ends, want)
				}
			})
		}
	})
	t.Run("dead", func(t *testing.T) {
		stageTest(t, nil, hook.Config{State: hook.State{Phase: hook.PhaseDead, Failed: true}}, func(t *testing.T, s *stage) {
			s.run()
			<-s.done
			if s.err != nil || len(s.record.seen()) != 0 {
				t.Errorf("Run of a dead task: %v, %v", s.err, s.record.seen())
			}
			wantErr(t, s.Restart("no"), hook.ErrNotRunning)
		})
	})
}

// The stats hook under the runner: one stream per start, none between two, none after the end.
func TestRunnerWithStatsHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stats := &statsDriver{script: []opening{{stream: samples(10000)}}}
		tasks := &taskDriver{script: []taskStart{{runs: 10*time.Second - time.Millisecond, exit: hook.Exit{Code: 1}}}}
		seen, record := &updates{}, &recorder{name: "all"}
		h := hook.NewStatsHook(hook.StatsConfig{Publish: true, Updater: seen})
		r := hook.New(hook.Config{Starter: measured{tasks, stats}, Hooks: []hook.Hook{h, record}, Restart: service})
		testkit.Must(t, r.Run(t.Context()))
		if n := len(stats.openings()); n != 3 || stats.openNow() != 0 || stats.most != 1 {
			t.Errorf("%d streams, %d open at the end, %d at once, want 3, 0, 1", n, stats.openNow(), stats.most)
		}
		testkit.Equal(t, seen.count(), 30, "samples in three runs of 10 s")
		wantErr(t, h.Err(), hook.ErrNotRunning)
		want := []string{"prestart 0", "poststart with stats", "exited 1"}
		same(t, "what happened", want, record.seen()[:3])
	})
}

// measured is a starter of tasks with stats.
type measured struct {
	tasks *taskDriver
	stats *statsDriver
}

func (m measured) Start(ctx context.Context) (hook.Handle, error) {
	handle, err := m.tasks.Start(ctx)
	if err != nil {
		return nil, err
	}
	return measuredTask{handle.(*task), m.stats}, nil
}

// Whatever the moment at which the agent is killed, the next one continues from the state that the observer received
// last: the task neither runs once more nor once less, and no restart is counted twice.
func TestRunnerKilledAfterAnyEvent(t *testing.T) {
	fails, ends := taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}, taskStart{runs: time.Second}
	script := []taskStart{fails, fails, ends}
	var whole *recorder
	stageTest(t, script, hook.Config{Restart: batch}, func(t *testing.T, s *stage) {
		s.run()
		s.wantDead(hook.EventCompleted, false, 2)
		whole = s.record
	})
	started := 0
	for i, event := range whole.events[:len(whole.events)-1] {
		if event.Type == hook.EventStarted {
			started++
		}
		config := hook.Config{Restart: batch, State: whole.states[i]}
		life := func(t *testing.T, s *stage) {
			s.driver.script = append(slices.Clone(script[started:]), ends)
			s.run()
			s.wantDead(hook.EventCompleted, false, 2)
			if got, want := s.driver.startCount(), len(script)-started; got != want {
				t.Errorf("killed after event %d (%s): %d more starts, want %d", i, event.Type, got, want)
			}
		}
		if config.State.Phase == hook.PhaseRunning && !config.State.Ended {
			recoverTest(t, script[started-1], config, life)
		} else {
			stageTest(t, nil, config, life)
		}
	}
}
