// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
)

// troupe is an allocation's tasks, by name, with the rank in which each is to end.
type troupe map[string]int

const (
	isLeader = iota
	isMain
	isSidecar
	isLast
)

// troupes are the allocations that a stop meets: with and without a leader, which may be a sidecar.
func troupes() map[string]troupe {
	all := make(map[string]troupe)
	for shape, more := range map[string]troupe{
		"no leader": {"helper-post": isMain}, "leader": {"lead": isLeader}, "sidecar leads": {"lead-side": isLeader},
	} {
		all[shape] = troupe{"m1": isMain, "m2": isMain, "pre-side": isSidecar, "post-side": isSidecar, "last": isLast}
		maps.Copy(all[shape], more)
	}
	return all
}

// text is a job of the tasks. Each writes into a file of all when it has begun, is signaled and ends. It ends by itself
// after SIGUSR1, and fails after SIGUSR2.
func (tasks troupe) text(id string) string {
	const script = `say() { echo %s $1 >> $NOMAD_ALLOC_DIR/data/order; }
end() { kill $!; say end; exit $1; }
trap 'say signal; sleep 0.1; end 0' INT; trap 'end 0' USR1; trap 'end 1' USR2
say up; sleep 1000 & wait`
	text := fmt.Sprintf("job %q {\n type = \"batch\"\n group \"g\" {\n restart {\n attempts = 0\n }\n", id)
	for name, rank := range tasks {
		more := fmt.Sprintf("leader = %v\n resources {\n cpu = 1\n memory = 10\n memory_max = 64\n }\n", rank == isLeader)
		command := fmt.Sprintf(script, name)
		switch {
		case rank == isLast:
			more += "lifecycle {\n hook = \"poststop\"\n}"
			command = "echo last up >> $NOMAD_ALLOC_DIR/data/order"
		case strings.Contains(name, "-"):
			hook := job.HookPrestart
			if strings.Contains(name, "post") {
				hook = job.HookPoststart
			}
			more += fmt.Sprintf("lifecycle {\n hook = %q\n sidecar = %v\n}\n", hook, strings.HasSuffix(name, "side"))
		}
		text += strings.Replace(shell(name, more, command), `"1s"`, `"1m"`, 1)
	}
	return text + "\n}\n}"
}

// said is what the tasks have said so far, in order, such as "m1 end".
func said(t *testing.T, l *allocation.Allocation) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.Dir.Shared(), "data", "order"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

// checkOrder holds that each task was signaled once, and none before those of lower ranks were gone, by what the tasks
// said and by the times of their events. Those that are alone ended by themselves.
func (tasks troupe) checkOrder(t *testing.T, l *allocation.Allocation, alone ...string) {
	t.Helper()
	lines := said(t, l)
	at := func(name string, kind hook.EventType) (first time.Time) {
		events, _ := l.Tasks[name].Details()
		for _, e := range slices.Backward(events) {
			if e.Type == kind {
				first = e.Time
			}
		}
		return first
	}
	for name, rank := range tasks {
		begin, event := name+" signal", hook.EventKilling
		if rank == isLast {
			begin, event = name+" up", hook.EventStarted
		}
		if slices.Contains(alone, name) {
			continue
		}
		if n := count(lines, begin); n != 1 {
			t.Errorf("%s was signaled, or has begun, %d times", name, n)
		}
		for other, lower := range tasks {
			if lower >= rank {
				continue
			}
			if end := slices.Index(lines, other+" end"); end < 0 || end > slices.Index(lines, begin) {
				t.Errorf("%s was signaled, or has begun, before %s had ended", name, other)
			}
			end, begin := at(other, hook.EventTerminated), at(name, event)
			if !begin.IsZero() && (end.IsZero() || end.After(begin)) {
				t.Errorf("by its events %s was signaled, or has begun, at %v; %s ended at %v", name, begin, other, end)
			}
		}
	}
	if t.Failed() {
		t.Logf("%q", lines)
	}
}

// perform runs a job of the tasks and returns its allocation when all are up that are to be.
func (tasks troupe) perform(r *running, id string) *allocation.Allocation {
	r.t.Helper()
	l := r.submit(tasks.text(id))[0]
	tasks.awaitUp(r, l, 1)
	return r.await(l.ID, "running", func(l *allocation.Allocation) bool { // what they say may be there before
		for name, rank := range tasks {
			if rank != isLast && l.Tasks[name].State.Phase != hook.PhaseRunning {
				return false
			}
		}
		return true
	})
}

func (tasks troupe) awaitUp(r *running, l *allocation.Allocation, times int) {
	r.t.Helper()
	r.eventually("the start of all tasks", func() bool {
		lines := said(r.t, l)
		for name, rank := range tasks {
			if rank != isLast && count(lines, name+" up") < times {
				return false
			}
		}
		return true
	})
}

func allDead(l *allocation.Allocation) bool {
	for _, task := range l.Tasks {
		if task.State.Phase != hook.PhaseDead {
			return false
		}
	}
	return true
}

// TestStopOrder has all tasks of allocations say when they are signaled and end, for each way in which these end.
func TestStopOrder(t *testing.T) {
	r := beginAlone(t)
	type end func(r *running, l *allocation.Allocation) error
	ways := map[string]end{
		"job stop":   func(r *running, l *allocation.Allocation) error { return r.StopJob(l.JobID, false, nil) },
		"job purge":  func(r *running, l *allocation.Allocation) error { return r.StopJob(l.JobID, true, nil) },
		"alloc stop": func(r *running, l *allocation.Allocation) error { return r.ReplaceAlloc(l.ID) },
		"restart":    func(r *running, l *allocation.Allocation) error { return r.RestartAlloc(l.ID, "") },
		"scale": func(r *running, l *allocation.Allocation) error {
			_, _, err := r.ScaleJob(r.t.Context(), l.JobID, "g", 0)
			return err
		},
		"update": func(r *running, l *allocation.Allocation) error {
			text := strings.Replace(inGroup(1, shell("other", "", "exec sleep 1000")), "test", l.JobID, 1)
			_, _, err := r.RunJob(r.t.Context(), job.Source{Filename: "f", Text: text}, nil)
			return err
		},
	}
	// These end by themselves.
	for _, way := range []string{
		"m1 by USR2", "pre-side by USR2", "lead by USR1", "lead by USR2", "lead-side by USR2", "m1 m2 helper-post by USR1",
	} {
		names, signal, _ := strings.Cut(way, " by ")
		ways[way] = func(r *running, l *allocation.Allocation) (err error) {
			for name := range strings.FieldsSeq(names) {
				err = errors.Join(err, r.SignalAlloc(r.t.Context(), l.ID, name, signal))
			}
			return err
		}
	}
	number := 0
	for shape, tasks := range troupes() {
		for way, end := range ways {
			names, _, itself := strings.Cut(way, " by ")
			alone := strings.Fields(names)
			_, there := tasks[alone[len(alone)-1]]
			again := shape != "leader" && slices.Contains([]string{"job purge", "scale", "update"}, way) // stops as job stop
			if itself && !there || again {
				continue
			}
			number++
			id := fmt.Sprintf("order-%d", number)
			t.Run(shape+"/"+way, func(t *testing.T) {
				t.Parallel()
				r, tasks := &running{Agent: r.Agent, t: t}, maps.Clone(tasks)
				l := tasks.perform(r, id)
				t.Cleanup(func() { _ = r.StopJob(id, true, nil) }) // it may be stopped already
				must(t, end(r, l))
				if way == "restart" {
					delete(tasks, "last")
					tasks.awaitUp(r, l, 2)
				} else {
					l = r.await(l.ID, "dead", allDead)
				}
				tasks.checkOrder(t, testkit.Value(r.Snapshot().Allocation(l.ID))(t), alone...)
			})
		}
	}
}

// TestStopOrderWithTheAgent has the agent end, and be restarted, while tasks do; a development agent ends them.
func TestStopOrderWithTheAgent(t *testing.T) {
	for name, dev := range map[string]bool{"restarted": false, "development": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tasks := troupes()["leader"]
			c := testConfig(shortDir(t))
			c.Dev = dev
			r := begin(t, c)
			l := tasks.perform(r, "order")
			if dev {
				r.end(false)
				tasks.checkOrder(t, l) // without the events of the end: its state is closed
				return
			}
			must(t, r.StopJob("order", false, nil))
			r.eventually("the signal", func() bool { return slices.Contains(said(t, l), "lead signal") })
			r.end(false)
			r = begin(t, c)
			l = r.await(l.ID, "dead", allDead)
			tasks.checkOrder(t, l, "lead") // it may have been signaled twice
			r.end(true)
		})
	}
}
