// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package alloc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	pre := &job.Lifecycle{Hook: job.HookPrestart}
	side := &job.Lifecycle{Hook: job.HookPrestart, Sidecar: true}
	post := &job.Lifecycle{Hook: job.HookPoststart}
	stop := &job.Lifecycle{Hook: job.HookPoststop}
	fresh := func(name string, l *job.Lifecycle) progress { return progress{name: name, lifecycle: l} }
	up := func(name string, l *job.Lifecycle) progress {
		return progress{name: name, lifecycle: l, launched: true, started: true}
	}
	dead := func(name string, l *job.Lifecycle, failed bool) progress {
		return progress{name: name, lifecycle: l, launched: true, started: true, dead: true, failed: failed}
	}
	leader := func(p progress) progress { p.leader = true; return p }
	stuck := func(p progress) progress { p.stuck = true; return p }
	tests := map[string]struct {
		tasks    []progress
		stopping string
		want     steps
	}{
		"prestart goes first":       {[]progress{fresh("m", nil), fresh("p", pre), fresh("x", post)}, "", steps{launch: []string{"p"}}},
		"a sidecar has to run only": {[]progress{fresh("m", nil), up("s", side)}, "", steps{launch: []string{"m"}}},
		"prestart must have ended":  {[]progress{fresh("m", nil), up("p", pre)}, "", steps{}},
		"main after prestart":       {[]progress{fresh("m", nil), dead("p", pre, false)}, "", steps{launch: []string{"m"}}},
		"poststart after all mains": {
			[]progress{up("m", nil), fresh("n", nil), fresh("x", post)}, "", steps{launch: []string{"n"}},
		},
		"poststart": {[]progress{up("m", nil), fresh("x", post)}, "", steps{launch: []string{"x"}}},
		"sidecars end with the mains": {
			[]progress{dead("m", nil, false), up("s", side)},
			"",
			steps{stop: []string{"s"}, reason: "the main tasks have ended"},
		},
		"a failed prestart ends all": {
			[]progress{fresh("m", nil), dead("p", pre, true), up("s", side)},
			"",
			steps{stop: []string{"s"}, skip: []string{"m"}, reason: "task p failed"},
		},
		"a leader takes all with it": {
			[]progress{leader(dead("m", nil, false)), up("n", nil)},
			"",
			steps{stop: []string{"n"}, reason: "the leader m has ended"},
		},
		"poststop comes last": {
			[]progress{dead("m", nil, false), up("s", side), fresh("z", stop)},
			"",
			steps{stop: []string{"s"}, reason: "the main tasks have ended"},
		},
		"poststop": {
			[]progress{dead("m", nil, true), fresh("z", stop)}, "", steps{launch: []string{"z"}, reason: "task m failed"},
		},
		"a stop": {
			[]progress{up("m", nil), fresh("x", post)},
			"asked",
			steps{stop: []string{"m"}, skip: []string{"x"}, reason: "asked"},
		},
		"sidecars serve until the others are gone": {
			[]progress{up("m", nil), up("s", side), up("p", pre), dead("n", nil, false)},
			"asked",
			steps{stop: []string{"m", "p"}, reason: "asked"},
		},
		"and do not wait for one that cannot be ended": {
			[]progress{stuck(up("m", nil)), up("s", side)}, "asked", steps{stop: []string{"m", "s"}, reason: "asked"},
		},
		"a sidecar that leads": {
			[]progress{leader(up("l", side)), up("m", nil), up("s", side)}, "asked", steps{stop: []string{"l", "m"}, reason: "asked"},
		},
		"a sidecar that has not begun": {
			[]progress{up("m", nil), fresh("s", side)}, "asked", steps{stop: []string{"m"}, skip: []string{"s"}, reason: "asked"},
		},
		"a leader that is to begin last": {
			[]progress{dead("m", nil, false), leader(up("z", stop)), up("s", side)}, "", steps{stop: []string{"s"}, reason: "the main tasks have ended"},
		},
		"done": {[]progress{dead("m", nil, false), dead("z", stop, false)}, "", steps{done: true, reason: "the main tasks have ended"}},
		"a main that ran before is looked after at once": {
			[]progress{{name: "m", started: true}, fresh("s", side)}, "", steps{launch: []string{"m", "s"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			testkit.Diff(t, "result", tt.want, plan(tt.tasks, tt.stopping), cmp.AllowUnexported(steps{}))
		})
	}
}

// TestDescriptionStays names the same task each time: maps have no order.
func TestDescriptionStays(t *testing.T) {
	t.Parallel()
	failed := &allocation.Task{State: hook.State{Phase: hook.PhaseDead, Failed: true}}
	tasks := map[string]*allocation.Task{"d": failed, "b": failed, "c": failed, "a": {}}
	for range 50 {
		if got := describe(allocation.Failed, tasks); got != "Task b failed: no restart attempt is left" {
			t.Fatal(got)
		}
	}
}
