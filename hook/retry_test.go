// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/testkit"
)

// hostOOM is the end of a task that is not at fault.
func hostOOM() hook.Exit {
	return hook.Exit{Code: 137, Signal: 9, Retryable: "the host ran out of memory"}
}

func always() bool { return true }

// TestRunnerRetriesWhatIsNotTheTasksFault holds that such an end takes no attempt, is bounded, and says why.
func TestRunnerRetriesWhatIsNotTheTasksFault(t *testing.T) {
	oom, fails, done := taskStart{runs: time.Second, exit: hostOOM()}, taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}, taskStart{runs: time.Second}
	long := taskStart{runs: time.Hour, exit: hostOOM()}
	row := func(n int, start taskStart) []taskStart {
		var all []taskStart
		for range n {
			all = append(all, start)
		}
		return all
	}
	never := hook.RestartPolicy{Mode: hook.RestartModeFail}
	one := hook.RestartPolicy{Attempts: 1, Interval: 24 * time.Hour, Mode: hook.RestartModeFail}
	tests := map[string]struct {
		policy   hook.RestartPolicy
		retry    func() bool
		script   []taskStart
		last     hook.EventType
		restarts int
		used     int
		reason   string // of the last event
	}{
		"once":                  {never, always, append(row(1, oom), done), hook.EventCompleted, 1, 0, ""},
		"ten times":             {never, always, append(row(10, oom), done), hook.EventCompleted, 10, 0, ""},
		"for ever":              {never, always, row(1, oom), hook.EventNotRestarting, 10, 0, "policy allows no restarts; the host ran out of memory, and 10 retries in a row did not help"},
		"for ever, one attempt": {one, always, row(1, oom), hook.EventNotRestarting, 11, 2, "exceeded 1 attempt in 24h0m0s, mode is \"fail\"; the host ran out of memory, and 10 retries in a row did not help"},
		"another end between":   {one, always, append(append(row(10, oom), fails), append(row(10, oom), done)...), hook.EventCompleted, 21, 1, ""},
		"seldom":                {never, always, append(row(25, long), done), hook.EventCompleted, 25, 0, ""},
		"the task's own fault":  {never, always, row(1, fails), hook.EventNotRestarting, 0, 0, "policy allows no restarts"},
		"switched off":          {never, func() bool { return false }, row(1, oom), hook.EventNotRestarting, 0, 0, "policy allows no restarts"},
		"not configured":        {never, nil, row(1, oom), hook.EventNotRestarting, 0, 0, "policy allows no restarts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stageTest(t, test.script, hook.Config{Restart: test.policy, Retry: test.retry}, func(t *testing.T, s *stage) {
				s.run()
				s.wantDead(test.last, test.last == hook.EventNotRestarting, test.restarts)
				if got := s.State().Window.Used; got != test.used && test.last != hook.EventNotRestarting {
					t.Errorf("%d attempts used, want %d", got, test.used)
				}
				if last, _ := s.record.last(); test.reason != "" && last.Message != test.reason {
					t.Errorf("last event %q, want %q", last.Message, test.reason)
				}
			})
		})
	}
}

func TestRunnerRetryEventsAndDelays(t *testing.T) {
	stageTest(t, []taskStart{{runs: time.Second, exit: hostOOM()}}, hook.Config{Retry: always}, func(t *testing.T, s *stage) {
		s.run()
		<-s.done
		var reasons []string
		for _, e := range s.record.events {
			if e.Type == hook.EventRestarting {
				_, reason, _ := strings.Cut(e.Message, ": ")
				reasons = append(reasons, reason)
			}
		}
		want := "the host ran out of memory: retry 3 of 10, which counts as no attempt"
		if len(reasons) != 10 || reasons[2] != want {
			t.Errorf("reasons %q, want 10, the third %q", reasons, want)
		}
		for i, seconds := range []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300} {
			got := s.driver.starts[i+1].Sub(s.driver.starts[i]).Seconds() - 1
			if got < seconds || got > 1.25*seconds+0.001 {
				t.Errorf("retry %d after %.1f s, want %.0f and at most a quarter more", i+1, got, seconds)
			}
		}
	})
}

// The agent was killed between two retries: the row continues. How long it was away says nothing about how long the
// task ran.
func TestRunnerCountsRetriesOverRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		ran, away time.Duration
		want      []hook.EventType
	}{
		"at once":            {time.Second, 0, []hook.EventType{hook.EventNotRestarting}},
		"an hour later":      {time.Second, time.Hour, []hook.EventType{hook.EventNotRestarting}},
		"of a task that ran": {time.Hour, 0, []hook.EventType{hook.EventRestarting, hook.EventSetup, hook.EventStarted, hook.EventTerminated, hook.EventCompleted}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				exit := hostOOM()
				exit.At = time.Now().Add(-test.away)
				state := hook.State{
					Phase: hook.PhasePending, Exit: &exit, Restarts: 10, StartedAt: exit.At.Add(-test.ran),
					Window: hook.RestartWindow{From: hook.Instant{Wall: time.Now()}, Retried: 10},
				}
				record := &recorder{name: "all"}
				driver := &taskDriver{script: []taskStart{{runs: time.Second}}}
				r := hook.New(hook.Config{Starter: driver, Observer: record, Retry: always, State: state})
				testkit.Must(t, r.Run(t.Context()))
				same(t, "events", test.want, record.types())
				if at := r.State().FinishedAt; len(test.want) == 1 && !at.Equal(exit.At) {
					t.Errorf("finished at %s, and the task ended at %s", at, exit.At)
				}
			})
		})
	}
}

// TestRunnerRetryIsCutShort stops or restarts a task that waits for its retry.
func TestRunnerRetryIsCutShort(t *testing.T) {
	policy := hook.RestartPolicy{Delay: 20 * time.Minute}
	script := []taskStart{{runs: time.Second, exit: hostOOM()}, {obeys: true}}
	for name, test := range map[string]struct {
		after   time.Duration // since the first start
		restart bool
		starts  int
	}{
		"stopped":                       {10 * time.Minute, false, 1},
		"restarted":                     {10 * time.Minute, true, 2},
		"longest delay is the policy's": {26 * time.Minute, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			stageTest(t, script, hook.Config{Restart: policy, Retry: always}, func(t *testing.T, s *stage) {
				s.run()
				after(test.after)
				if test.restart {
					s.restart("impatient")
					after(time.Second)
				}
				s.kill(1)
				s.wantStartCount(test.starts)
				if w := s.State().Window; w.Used != 0 || w.Retried != 1 {
					t.Errorf("window %+v, want one retry and no attempt", w)
				}
			})
		})
	}
}
