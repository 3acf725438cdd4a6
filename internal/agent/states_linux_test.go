// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/internal/testkit"
)

// shownStates are the newest states of allocations in a stream of events.
type shownStates map[string]*allocation.Allocation

// check returns what an event says of an allocation that cannot have been true; empty for nothing.
func (s shownStates) check(e snapshot.Event) (wrong string) {
	now := e.Allocation
	if now == nil {
		return ""
	}
	before := s[now.ID]
	s[now.ID] = now
	if before == nil && now.CreateIndex != e.Index {
		return "" // what was before is not kept any more
	}
	if before == nil {
		before = &allocation.Allocation{ClientStatus: allocation.Pending, Tasks: map[string]*allocation.Task{}}
	}
	runs, begun, mainsDead := false, false, true
	for name, t := range now.Tasks {
		state := t.State
		mainsDead = mainsDead && (t.Lifecycle != nil || state.Phase == hook.PhaseDead)
		runs = runs || state.Phase == hook.PhaseRunning
		begun = begun || !state.StartedAt.IsZero()
		if was := before.Tasks[name]; was == nil {
			continue
		} else if was.State.Phase == hook.PhaseRunning && state.Phase == hook.PhasePending && state.RestartAt.IsZero() ||
			was.State.Phase == hook.PhaseDead && state.Phase != hook.PhaseDead {
			wrong += fmt.Sprintf("task %s: %s after %s, and no start is due; ", name, state.Phase, was.State.Phase)
		}
	}
	was, is := before.ClientStatus, now.ClientStatus
	switch {
	case was.Ended() && is != was,
		is == allocation.Pending && was == allocation.Running && mainsDead,
		is == allocation.Running && was != allocation.Running && !runs,
		is == allocation.Complete && was == allocation.Pending && begun && now.DesiredStatus == allocation.DesiredRun:
		wrong += fmt.Sprintf("allocation is %s after %s", is, was)
	}
	return wrong
}

// wantTrueStates reads all events of an agent.
func (r *running) wantTrueStates() {
	r.t.Helper()
	shown := shownStates{}
	events := r.Feed().Subscribe(0)
	for last := r.Feed().Index(); ; {
		e, err := events.Next(r.host.Context)
		if err != nil || e.Index > last {
			return
		}
		if wrong := shown.check(e); wrong != "" {
			r.t.Errorf("event %d, %s %v: %s", e.Index, e.Allocation.Name, e.TaskEvent, wrong)
		}
		if e.Index == last {
			return
		}
	}
}

// TestStatesAreTrue runs random jobs, and some are stopped, so that no event shows a state that was never true. Nor is
// a job dead that goes on.
func TestStatesAreTrue(t *testing.T) {
	r := beginAlone(t)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	one := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	const jobs = 10
	for i := range jobs {
		var tasks strings.Builder
		for k := range 1 + random.IntN(4) {
			more := "restart {\n attempts = " + one("0", "1", "2") + "\n interval = \"1h\"\n delay = \"" + one("1ms", "50ms") + "\"\n mode = \"fail\"\n}\n"
			if k > 0 {
				more += "lifecycle {\n hook = " + one(`"prestart"`, `"poststart"`, `"poststop"`) + "\n sidecar = " + one("true", "false") + "\n}\n"
				more = strings.Replace(more, "\"poststop\"\n sidecar = true", "\"poststop\"", 1)
			} else {
				more += one("", "leader = true\n")
			}
			tasks.WriteString(shell(fmt.Sprintf("t%d", k), more, one("true", "true", "exit 3", "sleep 0.05", "sleep 0.2; exit 1", "kill -9 $$")))
		}
		text := "job \"test\" {\n type = \"batch\"\n reschedule {\n attempts = 1\n interval = \"1h\"\n delay = \"5s\"\n}\n group \"g\" {\n" +
			tasks.String() + " }\n}"
		r.submit(strings.Replace(text, "test", fmt.Sprintf("test%d", i), 1))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	events, dead := r.Feed().Subscribe(0), map[string]bool{}
	for len(dead) < jobs {
		e, err := events.Next(ctx)
		if err != nil {
			t.Fatalf("%v: of %d jobs only %v are dead", err, jobs, dead)
		}
		id := e.Key
		if e.Allocation != nil {
			id = e.Allocation.JobID
		}
		if e.Topic != snapshot.TopicAllocation && e.Topic != snapshot.TopicJob {
			continue
		}
		j := testkit.Value(r.job(id))(t)
		switch {
		case j.Status == "dead":
			dead[id] = true
		case dead[id]:
			t.Errorf("%s: %s after dead", id, j.Status)
		case random.IntN(40) == 0:
			must(t, r.StopJob(id, false, nil))
		}
	}
}
