// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/executor/client"
)

// crowd is a job of twelve tasks.
const crowd = `
job %q {
  group "g" {
    count = 12
    task "t" {
      driver = "tacho"
      logs {
        max_files     = 1
        max_file_size = 1
      }
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
`

// executors returns how many executors are alive, by allocation.
func (a *agent) executors() map[string]int {
	a.t.Helper()
	all, err := client.List(a.runtime)
	if err != nil {
		a.t.Log(err) // one that is being removed
	}
	count := make(map[string]int)
	for _, address := range all {
		if client.Alive(*address) {
			count[address.AllocID]++
		}
	}
	return count
}

// TestAgentKilledWhileStarting kills the agent while it starts tasks, every other time with the plugin: no task runs
// twice once all run, and none is left once the job is purged, also of those that the agent never knew.
func TestAgentKilledWhileStarting(t *testing.T) {
	random := rig.Random(t)
	a := start(t, false)
	var name string
	t.Cleanup(func() { a.showUnstarted(name) })
	for round := range max(2, *kills/2) {
		name = "crowd" + strconv.Itoa(round)
		if _, err := a.cliInput(fmt.Sprintf(crowd, name), "job", "run", "-detach", "-"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		plugin := a.pluginProcess()
		a.kill()
		if round%2 == 0 && plugin != 0 {
			_ = syscall.Kill(plugin, syscall.SIGKILL) // it may have ended
		}
		t.Logf("round %d: %d executors when the agent was killed", round, len(a.executors()))
		a.run()
		if round%3 != 2 { // otherwise it is purged before it has started again
			a.await("start of all tasks", time.Minute, func() bool { return a.runningOf(name) == 12 })
			for id, n := range a.executors() {
				if n != 1 {
					t.Errorf("round %d: allocation %s runs %d times", round, id, n)
				}
			}
		}
		if _, err := a.cli("job", "stop", "-detach", "-purge", name); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a.await("end of all executors", 90*time.Second, func() bool { return len(a.executors()) == 0 })
		t.Logf("round %d: nothing is left after %s", round, time.Since(began).Round(time.Second))
	}
	// Of an executor that was about to be started, its directory.
	a.await("removal of all directories", 90*time.Second, func() bool {
		left, err := os.ReadDir(a.runtime)
		return err == nil && len(left) == 0
	})
}

// showUnstarted shows, if the test has failed, what became of the allocations that do not run.
func (a *agent) showUnstarted(name string) {
	var list []allocState
	if !a.t.Failed() || a.get("/v1/job/"+name+"/allocations", &list) != nil {
		return
	}
	for _, l := range list {
		if l.ClientStatus == "running" {
			continue
		}
		a.t.Logf("allocation %s is %s", l.ID, l.ClientStatus)
		for _, event := range l.TaskStates["t"].Events {
			a.t.Logf("  %s: %s", event.Type, event.DisplayMessage)
		}
	}
}

// runningOf returns how many allocations of a job run. A client that is killed before it has told its server of a start
// does not do so when it has recovered the task (seen with 2.0): the server's "pending" is then not the client's state.
func (a *agent) runningOf(job string) (running int) {
	var list []allocState
	if a.get("/v1/job/"+job+"/allocations", &list) != nil {
		return 0
	}
	for _, l := range list {
		if l.ClientStatus == "running" || l.ClientStatus == "pending" && a.measures(l.ID) {
			running++
		}
	}
	return running
}

// measures reports whether the client has statistics of the allocation's task, which it only has of one that runs.
func (a *agent) measures(id string) bool {
	var s struct {
		Tasks map[string]*struct{ Timestamp int64 }
	}
	return a.get("/v1/client/allocation/"+id+"/stats", &s) == nil && s.Tasks["t"] != nil && s.Tasks["t"].Timestamp > 0
}
