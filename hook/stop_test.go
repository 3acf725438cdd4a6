// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package hook_test

import (
	"testing"
	"time"

	"github.com/tachograph/tacho/hook"
)

func TestRunnerStop(t *testing.T) {
	killed := []hook.EventType{hook.EventSetup, hook.EventStarted, hook.EventKilling, hook.EventTerminated, hook.EventKilled}
	escalated := append(append([]hook.EventType(nil), killed[:3]...), hook.EventKillFailed, hook.EventTerminated, hook.EventKilled)
	cases := map[string]struct {
		task   taskStart
		calls  []string
		events []hook.EventType
		within time.Duration
	}{
		"by the signal":          {taskStart{obeys: true, ends: time.Second}, []string{"stop SIGINT 7s"}, killed, time.Second},
		"by the driver's kill":   {taskStart{}, []string{"stop SIGINT 7s"}, killed, 7 * time.Second},
		"signal is refused":      {taskStart{stopErrs: []error{errBroken}}, []string{"stop SIGINT 7s", "stop SIGKILL 0s"}, escalated, time.Second},
		"kill fails a few times": {taskStart{stopErrs: []error{errBroken, errBroken, errBroken}}, []string{"stop SIGINT 7s", "stop SIGKILL 0s", "stop SIGKILL 0s", "stop SIGKILL 0s"}, escalated, 7 * time.Second},
		"plugin restarts":        {taskStart{stopErrs: []error{hook.ErrPluginRestarting}}, []string{"stop SIGINT 7s", "stop SIGINT 7s"}, killed, 8 * time.Second},
		"end is seen late":       {taskStart{stopErrs: []error{nil}}, []string{"stop SIGINT 7s", "stop SIGKILL 0s"}, killed, time.Second},
		"driver takes too long":  {taskStart{obeys: true, ends: time.Hour}, []string{"stop SIGINT 7s", "stop SIGKILL 0s"}, escalated, 18 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := hook.Config{Restart: service, KillSignal: "SIGINT", KillTimeout: 7 * time.Second}
			stageTest(t, []taskStart{c.task}, config, func(t *testing.T, s *stage) {
				s.run()
				after(time.Minute)
				before := time.Now()
				s.Stop("job is stopped")
				s.Stop("again")
				s.wantDead(hook.EventKilled, false, 0)
				if took := time.Since(before); took > c.within || took < c.within/2 {
					t.Errorf("stop took %v, want at most %v", took, c.within)
				}
				same(t, "calls", c.calls, s.driver.tasks[0].calls)
				same(t, "events", c.events, s.record.types())
				if event, _ := s.record.last(); event.Message != "job is stopped" {
					t.Errorf("message %q, want the reason of the first Stop", event.Message)
				}
			})
		})
	}
}

func TestRunnerStopBesidesRunning(t *testing.T) {
	fails := taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}
	cases := map[string]struct {
		script []taskStart
		at     time.Duration // -1 is before Run
		starts int
	}{
		"before Run":         {[]taskStart{{}}, -1, 0},
		"while it starts":    {[]taskStart{{takes: time.Hour}}, time.Minute, 1},
		"during the delay":   {[]taskStart{fails}, 5 * time.Second, 1},
		"in the second run":  {[]taskStart{fails, {}}, time.Minute, 2},
		"start is too quick": {[]taskStart{{}}, 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stageTest(t, c.script, hook.Config{Restart: service}, func(t *testing.T, s *stage) {
				if c.at < 0 {
					s.Stop("early")
					s.run()
				} else {
					s.run()
					after(c.at)
					s.Stop("now")
				}
				before := time.Now()
				<-s.done
				s.wantDead(hook.EventKilled, false, s.State().Restarts)
				if took := time.Since(before); took > 5*time.Second {
					t.Errorf("stop took %v, want at most the kill timeout of 5 s", took)
				}
				s.wantStartCount(c.starts)
				wantErr(t, s.Restart("too late"), hook.ErrNotRunning)
			})
		})
	}
}

func TestRunnerRestart(t *testing.T) {
	obeys := taskStart{obeys: true}
	stageTest(t, []taskStart{obeys}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		for range 5 { // more often than any policy allows
			after(time.Minute)
			s.restart("new certificate")
		}
		after(time.Minute)
		s.wantStarts(0, 60, 120, 180, 240, 300)
		want := []hook.EventType{
			hook.EventSetup, hook.EventStarted, hook.EventRestartSignal, hook.EventKilling, hook.EventTerminated,
			hook.EventRestarting, hook.EventSetup, hook.EventStarted,
		}
		same(t, "events", want, s.record.types()[:len(want)])
		if at := s.State().RestartAt; !at.IsZero() {
			t.Errorf("RestartAt of a running task = %v", at)
		}
		s.kill(5)
	})
}

func TestRunnerRestartEndsTheDelay(t *testing.T) {
	fails := taskStart{runs: time.Second, exit: hook.Exit{Code: 1}}
	stageTest(t, []taskStart{fails, {obeys: true}}, hook.Config{Restart: service}, func(t *testing.T, s *stage) {
		s.run()
		after(3 * time.Second)
		if at := s.State().RestartAt; time.Until(at) < 13*time.Second {
			t.Errorf("RestartAt is in %v, want the rest of the delay", time.Until(at))
		}
		for range 3 { // requested three times, done once
			s.restart("impatient")
		}
		after(time.Minute)
		s.wantStarts(0, 3)
		s.kill(1)
	})
}

func TestRunnerRestartDuringStartIsThatStart(t *testing.T) {
	stageTest(t, []taskStart{{takes: time.Minute, obeys: true}}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Second)
		s.restart("too early")
		after(time.Hour)
		s.wantStarts(0)
		s.kill(0)
	})
}

func TestRunnerStopDuringRestart(t *testing.T) {
	stageTest(t, []taskStart{{obeys: true, ends: 4 * time.Second}}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Second)
		s.restart("first")
		after(time.Second)
		s.Stop("then")
		s.wantDead(hook.EventKilled, false, 0)
		s.wantStarts(0)
	})
}

// TestRunnerWaitsForItsTurn has others end first, a minute after a task is to end.
func TestRunnerWaitsForItsTurn(t *testing.T) {
	cases := map[string]struct {
		task    taskStart
		restart bool
		starts  []float64
		calls   []string
	}{
		"stop":              {taskStart{obeys: true}, false, []float64{0}, []string{"stop  5s"}},
		"restart":           {taskStart{obeys: true}, true, []float64{0, 120}, []string{"stop  5s"}},
		"it ends meanwhile": {taskStart{runs: 90 * time.Second}, false, []float64{0}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var others chan struct{} // closed at each change among the others
			gone := false
			turn := func() <-chan struct{} {
				if gone {
					return nil
				}
				return others
			}
			stageTest(t, []taskStart{c.task, {obeys: true}}, hook.Config{Restart: service, Turn: turn}, func(t *testing.T, s *stage) {
				change := func() {
					before := others
					others = make(chan struct{})
					if before != nil {
						close(before)
					}
				}
				change()
				s.run()
				after(time.Minute)
				if c.restart {
					s.restart("new certificate")
				} else {
					s.Stop("enough")
				}
				after(20 * time.Second)
				if ending, stuck := s.Ending(); !ending || stuck || len(s.driver.tasks[0].calls) > 0 {
					t.Errorf("ending %t, stuck %t, calls %q before its turn", ending, stuck, s.driver.tasks[0].calls)
				}
				change()
				after(40 * time.Second)
				gone = true
				change()
				after(time.Second)
				if ending, _ := s.Ending(); ending {
					t.Error("it is ending after its end")
				}
				same(t, "calls", c.calls, s.driver.tasks[0].calls)
				s.wantStarts(c.starts...)
				s.Stop("enough")
				<-s.done
			})
		})
	}
}

// TestRunnerIsStuck has a task that the driver cannot end: others do not wait for it.
func TestRunnerIsStuck(t *testing.T) {
	stageTest(t, []taskStart{{stopErrs: []error{errBroken, errBroken}}}, hook.Config{}, func(t *testing.T, s *stage) {
		s.run()
		after(time.Minute)
		s.Stop("enough")
		after(0)
		if ending, stuck := s.Ending(); ending || !stuck {
			t.Errorf("ending %t, stuck %t", ending, stuck)
		}
		s.wantDead(hook.EventKilled, false, 0)
	})
}

func TestRunnerSignal(t *testing.T) {
	stageTest(t, []taskStart{{obeys: true}}, hook.Config{}, func(t *testing.T, s *stage) {
		wantErr(t, s.Signal(t.Context(), "SIGHUP"), hook.ErrNotRunning)
		s.run()
		after(time.Second)
		if err := s.Signal(t.Context(), "SIGHUP"); err != nil {
			t.Errorf("Signal: %v", err)
		}
		if err := s.Signal(t.Context(), "SIGNONE"); err == nil || err.Error() != "signal SIGNONE: no such signal" {
			t.Errorf("Signal = %v, want the driver's error", err)
		}
		s.kill(0)
		same(t, "calls", []string{"signal SIGHUP", "signal SIGNONE", "stop  5s"}, s.driver.tasks[0].calls)
		wantErr(t, s.Signal(t.Context(), "SIGHUP"), hook.ErrNotRunning)
	})
}
