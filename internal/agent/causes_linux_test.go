// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/config"
	"github.com/tachograph/tacho/internal/agent/state"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// bench is an agent whose tasks end on several accounts, and which is killed meanwhile.
type bench struct {
	*running
	config config.Config
}

// worker is a job whose task fails when it is told to. restarts and replacements are what its policies allow in a day.
func worker(jobType string, restarts, replacements int) string {
	text := oneTask(jobType, "", "f=$NOMAD_ALLOC_DIR/data/fail; while ! [ -e $f ]; do sleep 0.05; done; rm $f; exit 3")
	text = strings.Replace(text, "task ", fmt.Sprintf(
		"restart {\nattempts = %d\ninterval = \"24h\"\ndelay = \"50ms\"\nmode = \"fail\"\n}\ntask ", restarts), 1)
	return strings.Replace(text, "group ", fmt.Sprintf(
		"reschedule {\nattempts = %d\ninterval = \"24h\"\ndelay = \"5s\"\nunlimited = false\n}\ngroup ", replacements), 1)
}

// executor returns the only executor that lives.
func (b *bench) executor() (alive *wire.Address) {
	all := testkit.Value(client.List(filepath.Join(b.config.DataDir, "run")))(b.t)
	for _, address := range all {
		if client.Alive(*address) {
			alive = address
		}
	}
	if alive == nil {
		b.t.Fatalf("no executor lives among %v", all)
	}
	return alive
}

// killExecutor kills the executor, and returns once its task has ended with it.
func (b *bench) killExecutor() {
	b.t.Helper()
	address := b.executor()
	must(b.t, syscall.Kill(address.Executor.PID, syscall.SIGKILL))
	b.eventually("the end of the executor", func() bool { return !client.Alive(*address) })
}

// edit changes what the state has of each allocation and its task while no agent runs.
func (b *bench) edit(change func(*state.Allocation, *state.Task)) {
	b.t.Helper()
	store := openState(b.t, b.config)
	tasks := testkit.Value(store.Tasks())(b.t)
	for _, own := range testkit.Value(store.Allocations())(b.t) {
		change(own, tasks[own.ID]["t"])
		must(b.t, store.Apply(state.ChangeAllocation(own), state.ChangeTask(own.ID, "t", tasks[own.ID]["t"])))
	}
	must(b.t, store.Close())
}

// restart ends the agent, which leaves its tasks, and begins another over the same state.
func (b *bench) restart() {
	b.end(false)
	b.running = begin(b.t, b.config)
}

// reboot leaves what a boot of the machine leaves: no process, and a state with the id of the boot before.
func (b *bench) reboot() {
	b.t.Helper()
	boot := testkit.Value(kernel.BootID(kernel.HostFS()))(b.t)
	another := strings.Repeat("0", len(boot))
	b.end(false)
	for _, address := range testkit.Value(client.List(filepath.Join(b.config.DataDir, "run")))(b.t) {
		for _, process := range []procstats.ProcessID{address.Executor, address.Main} {
			if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				b.t.Error(err)
			}
			b.eventually("its end", func() bool { return !kernel.Alive(kernel.HostFS(), process) })
		}
		address.BootID = another
		must(b.t, address.Write())
	}
	b.edit(func(own *state.Allocation, t *state.Task) {
		earlierBoot(b.t, own, boot, another)
		earlierBoot(b.t, t, boot, another)
		if t.Handle != nil {
			t.Handle.DriverState = bytes.ReplaceAll(t.Handle.DriverState, []byte(boot), []byte(another))
		}
	})
	b.running = begin(b.t, b.config)
}

// earlierBoot replaces the id of the boot in all of a value.
func earlierBoot[T any](t *testing.T, value *T, boot, another string) {
	text := bytes.ReplaceAll(testkit.Value(json.Marshal(value))(t), []byte(boot), []byte(another))
	*value = *new(T)
	must(t, json.Unmarshal(text, value))
}

// settled holds that the status of the job is what its allocations come to.
func (b *bench) settled(want string) {
	b.t.Helper()
	b.eventually("status "+want, func() bool {
		now := b.Snapshot()
		live, awaited := false, false
		for _, l := range now.Allocations {
			live = live || !l.Over
			awaited = awaited || !l.Rescheduled.IsZero()
		}
		status := testkit.Value(now.Job("test"))(b.t).Status
		if (status == "running") != live || (status == "pending") != (awaited && !live) {
			b.t.Errorf("the job is %s; an allocation is live: %t, one is to be replaced: %t", status, live, awaited)
		}
		return status == want
	})
}

// fail lets the task of an allocation fail.
func (b *bench) fail(id string) {
	must(b.t, os.WriteFile(filepath.Join(b.host.Dir, id, "alloc", "data", "fail"), nil, 0o600))
}

// kills are what is killed before and between the ends of a task.
func kills() map[string]func(*bench) {
	return map[string]func(*bench){
		"nothing": func(*bench) {}, "agent": (*bench).restart, "executor": (*bench).killExecutor, "machine": (*bench).reboot,
	}
}

// forKills runs a test for each type of a job and each kill, with an agent for itself.
func forKills(t *testing.T, restarts int, test func(b *bench, jobType, kill string)) {
	t.Parallel()
	for _, jobType := range []string{"service", "batch", "system"} {
		for kill := range kills() {
			t.Run(jobType+" "+kill, func(t *testing.T) {
				t.Parallel()
				c := testConfig(shortDir(t))
				b := &bench{begin(t, c), c}
				defer func() { b.end(true) }()
				b.submit(worker(jobType, restarts, 1))
				test(b, jobType, kill)
			})
		}
	}
}

// runs waits until the only live allocation runs its start of a number again, and returns it.
func (b *bench) runs(restarts int) (l *allocation.Allocation) {
	b.t.Helper()
	b.eventually("a task that runs", func() bool {
		for _, l = range b.Snapshot().Allocations {
			s := l.Tasks["t"].State
			if l.ClientStatus == allocation.Running && s.Phase == hook.PhaseRunning && s.Restarts == restarts {
				return true
			}
		}
		return false
	})
	b.settled("running")
	return l
}

// TestCausesOfRestarts ends a task that may be restarted once on each account, after and before kills of what runs it:
// only its own failure takes the attempt.
func TestCausesOfRestarts(t *testing.T) {
	forKills(t, 1, func(b *bench, _, kill string) {
		restarts := 0
		for _, end := range []struct {
			cause hook.Cause
			bring func(*allocation.Allocation)
		}{
			{hook.CauseHost, func(*allocation.Allocation) { b.killExecutor() }},
			{hook.CauseOperator, func(l *allocation.Allocation) { must(b.t, b.RestartAlloc(l.ID, "")) }},
			{hook.CauseTask, func(l *allocation.Allocation) { b.fail(l.ID) }},
		} {
			b.runs(restarts)
			if kills()[kill](b); kill == "executor" || kill == "machine" {
				restarts++
			}
			end.bring(b.runs(restarts))
			restarts++
			l := b.runs(restarts)
			s, used := l.Tasks["t"].State, 0
			if end.cause == hook.CauseTask {
				used = 1
			}
			if s.Exit.Cause != end.cause || s.Window.Used != used {
				b.t.Errorf("an end by the %s: cause %s, %d attempts used", end.cause, s.Exit.Cause, s.Window.Used)
			}
			final := testkit.Value(b.Record(l.ID, "t"))(b.t)
			testkit.Equal(b.t, final.Cause, string(end.cause), "cause in the record")
		}
		task := b.runs(restarts).Tasks["t"]
		byHost := 1
		if kill == "executor" || kill == "machine" {
			byHost += 3
		}
		if task.Ends != byHost+2 || task.EndsByHost != byHost || task.EndsByOperator != 1 {
			b.t.Errorf("%d ends, %d by the host, %d by the operator", task.Ends, task.EndsByHost, task.EndsByOperator)
		}
	})
}

// TestCausesOfReplacements has allocations that are replaced for each reason, once in a day for their own failures.
func TestCausesOfReplacements(t *testing.T) {
	forKills(t, 0, func(b *bench, _, kill string) {
		between := func() {
			if kill != "executor" { // which is dead by then
				kills()[kill](b)
			}
		}
		for _, end := range []struct {
			cause hook.Cause
			bring func(*allocation.Allocation)
		}{
			{hook.CauseHost, func(*allocation.Allocation) {
				b.end(false)
				b.edit(func(_ *state.Allocation, t *state.Task) { t.State.Window.Retried = 10 })
				b.running = begin(b.t, b.config)
				b.killExecutor()
			}},
			{hook.CauseOperator, func(l *allocation.Allocation) { must(b.t, b.ReplaceAlloc(l.ID)) }},
			{hook.CauseTask, func(l *allocation.Allocation) { b.fail(l.ID) }},
		} {
			l := b.runs(0)
			if kill == "agent" {
				b.restart()
			}
			end.bring(l)
			if end.cause != hook.CauseOperator {
				b.settled("pending")
				between()
			}
			l = b.successor(l.ID)
			spent := 0
			if end.cause == hook.CauseTask {
				spent = 1
			}
			testkit.Equal(b.t, len(b.findByID(l.ID).Persisted().All()), spent, "attempts used by an end by the %s", end.cause)
		}
		b.fail(b.runs(0).ID)
		b.settled("dead") // the attempt of the day is used
	})
}

// TestLostSystemJob begins with the state of a build that gave up a system job at a reboot: it is placed again.
func TestLostSystemJob(t *testing.T) {
	t.Parallel()
	c := testConfig(shortDir(t))
	b := &bench{begin(t, c), c}
	defer func() { b.end(true) }()
	first := b.await(b.submit(oneTask("system", "", "exec sleep 1000"))[0].ID, "running", isRunning)
	b.findByID(first.ID).Stop(userStopped)
	b.settled("dead")
	b.end(false)
	b.edit(func(own *state.Allocation, t *state.Task) {
		own.Desired, own.Description = allocation.DesiredRun, ""
		at := time.Now().Add(-time.Hour)
		t.State = hook.State{
			Phase: hook.PhaseDead, Failed: true, StartedAt: at, FinishedAt: at,
			Exit: &hook.Exit{Lost: "it was running and could not be recovered"},
		}
	})
	b.running = begin(t, c)
	b.successor(first.ID)
	b.settled("running")
}
