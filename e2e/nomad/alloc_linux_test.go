// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/testkit"
)

// allocation is a job's one allocation, with its one task.
type allocation struct {
	agent *agent
	id    string
	task  string
}

// allocState is what the API says of an allocation.
type allocState struct {
	ID           string
	ClientStatus string
	TaskStates   map[string]taskState
}

type taskState struct {
	State    string
	Failed   bool
	Restarts int
	Events   []taskEvent
}

type taskEvent struct {
	Type           string
	DisplayMessage string
	Details        map[string]string
}

// submit registers a job of e2e/jobs and waits for its allocation.
func (a *agent) submit(job string) *allocation {
	a.t.Helper()
	if _, err := a.cli("job", "run", "-detach", filepath.Join("..", "jobs", job+".nomad.hcl")); err != nil {
		a.t.Fatal(err)
	}
	alloc := &allocation{agent: a}
	a.await("allocation of "+job, time.Minute, func() bool {
		var list []allocState
		if a.get("/v1/job/"+job+"/allocations", &list) != nil || len(list) == 0 {
			return false
		}
		alloc.id = list[0].ID
		for name := range list[0].TaskStates {
			alloc.task = name
		}
		return alloc.task != ""
	})
	return alloc
}

func (al *allocation) state() allocState {
	al.agent.t.Helper()
	var state allocState
	testkit.Must(al.agent.t, al.agent.get("/v1/allocation/"+al.id, &state))
	return state
}

// awaitStatus waits until the allocation has a status: running, complete or failed.
func (al *allocation) awaitStatus(want string) {
	al.agent.t.Helper()
	al.tellEvents()
	al.agent.await("status "+want+" of "+al.task, time.Minute, func() bool { return al.state().ClientStatus == want })
}

// tellEvents shows what happened to the task where the test fails.
func (al *allocation) tellEvents() {
	t := al.agent.t
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		var state allocState
		if err := al.agent.get("/v1/allocation/"+al.id, &state); err != nil {
			t.Log(err)
		}
		for _, event := range state.TaskStates[al.task].Events {
			t.Logf("%s: %s %v", event.Type, event.DisplayMessage, event.Details)
		}
	})
}

// awaitEvent waits for an event of a type with a text, and returns it.
func (al *allocation) awaitEvent(kind, text string) taskEvent {
	al.agent.t.Helper()
	al.tellEvents()
	var found taskEvent
	al.agent.await(kind+" event with "+text, time.Minute, func() bool {
		for _, event := range al.state().TaskStates[al.task].Events {
			if event.Type == kind && strings.Contains(event.DisplayMessage, text) {
				found = event
				return true
			}
		}
		return false
	})
	return found
}

// logs are what the agent says a stream of the task wrote.
func (al *allocation) logs(stream string) string {
	al.agent.t.Helper()
	text := testkit.Value(al.readLogs(stream))(al.agent.t)
	return text
}

func (al *allocation) readLogs(stream string) (string, error) {
	args := []string{"alloc", "logs", "-task", al.task}
	if stream == "stderr" {
		args = append(args, "-stderr")
	}
	return al.agent.cli(append(args, al.id)...)
}

// awaitLog waits until a task has written something; before its start there is no log to read.
func (al *allocation) awaitLog(want string) {
	al.agent.t.Helper()
	al.tellEvents()
	al.agent.await("line "+want+" in the log", time.Minute, func() bool {
		text, err := al.readLogs("stdout")
		return err == nil && strings.Contains(text, want)
	})
}

// dir is the allocation's folder.
func (al *allocation) dir() string { return filepath.Join(al.agent.dir, "data", "alloc", al.id) }

// attributes are what our plugin says of the task.
func (al *allocation) attributes() map[string]string {
	al.agent.t.Helper()
	for _, event := range al.state().TaskStates[al.task].Events {
		if event.Type == "Driver" && event.Details["executor.pid"] != "" {
			return event.Details
		}
	}
	al.agent.t.Fatalf("no event names the executor of %s", al.task)
	return nil
}

// stats is what the agent's stats API says of the task.
type stats struct {
	ResourceUsage struct {
		CPUStats struct {
			Percent, TotalTicks, SystemMode, UserMode float64
			Measured                                  []string
		} `json:"CpuStats"`
		MemoryStats struct {
			RSS, Cache, Swap, Usage, MaxUsage, KernelUsage uint64
			Measured                                       []string
		}
	}
	Timestamp int64
	Pids      map[string]any
}

func (al *allocation) stats() (s stats, ok bool) {
	var answer struct{ Tasks map[string]*stats }
	if err := al.agent.get("/v1/client/allocation/"+al.id+"/stats", &answer); err != nil {
		return s, false
	}
	task := answer.Tasks[al.task]
	if task == nil || task.Timestamp == 0 {
		return s, false
	}
	return *task, true
}

func readFile(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
