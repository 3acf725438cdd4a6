// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// witness is a job whose task says when it starts, and when it runs beside another of its kind.
const witness = `
job "witness" {
  group "g" {
    restart {
      attempts = 100000
      interval = "24h"
      delay    = "50ms"
      mode     = "delay"
    }
    task "t" {
      driver = "tacho"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          cd $NOMAD_ALLOC_DIR/data
          exec 9>lock; flock -n 9 || echo doubled >> doubled
          echo $$ >> starts
          yes 0123456789abcdef | head -c 1200000
          while :; do echo $$ >> beats; sleep 0.05; done
        EOT
        ]
      }
      resources {
        memory = 32
      }
      kill_timeout = "1s"
      logs {
        max_file_size = 1
      }
    }
  }
}
`

// TestFailpoints lets a process of ours die, hang or get an error at each step of a task's life. Whatever happens, a
// task runs once, ends when it is stopped, and leaves nothing. A selection is tried; with TACHO_CHAOS=all it is all.
func TestFailpoints(t *testing.T) {
	rig.Require(t)
	binary := rig.BuildWithFailpoints(t)
	all := rig.Failpoints(t, func(name string) bool { return !strings.HasPrefix(name, "run.") && !strings.HasPrefix(name, "plugin.") })
	rig.TryEach(t, all, 10, func(t *testing.T, f rig.Failpoint) { try(t, newChaos(t, binary), f) })
	t.Run("churn", func(t *testing.T) { churn(t, newChaos(t, binary), all, 20) })
}

// churn registers, restarts and stops jobs at random while random steps fail.
func churn(t *testing.T, c *chaos, all []rig.Failpoint, rounds int) {
	if rig.Exhaustive() {
		rounds = 1000
	}
	rounds = rig.Tries(rounds)
	random := rig.Random(t)
	names := []string{"witness", "second", "third", "fourth"}
	for range rounds {
		c.failpoint = all[random.IntN(len(all))]
		c.arm()
		name := names[random.IntN(len(names))]
		switch random.IntN(4) {
		case 0, 1:
			_ = c.put(name) // it may be refused, and its answer may be lost
		case 2:
			_ = c.restart()
		case 3:
			_, _ = c.call(http.MethodDelete, "/v1/job/"+name, nil)
		}
		pause(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
		c.mend()
	}
	c.disarm()
	c.failpoint = rig.Failpoint{}
	for _, name := range names {
		c.insist("stop of "+name, func() error {
			_, err := c.call(http.MethodDelete, "/v1/job/"+name, nil)
			if err != nil && strings.Contains(err.Error(), "404") {
				return nil // it was never registered
			}
			return err
		})
	}
	stopped := time.Now()
	c.awaitEnd()
	c.checkNothingLeft(stopped)
}

// chaos is an agent that is started again whenever it dies.
type chaos struct {
	*host
	failpoint rig.Failpoint
	chaotic   rig.Chaotic
	parent    *rig.Parent
	// stopped is how long a process of ours is stopped.
	stopped time.Duration
}

// newChaos starts an agent.
func newChaos(t *testing.T, binary rig.Chaotic) *chaos {
	t.Helper()
	parent := rig.NeedParent(t)
	h := newHost(t, publishing+fmt.Sprintf("plugin \"tacho\" {\n  config {\n    cgroup_parent = %q\n  }\n}\n", parent.Path))
	h.binary = filepath.Join(h.dir, "tacho")
	makeTemporary(t, h)
	c := &chaos{host: h, parent: parent, chaotic: binary.CopyTo(t, h.binary), stopped: time.Second}
	h.begin()
	return c
}

// makeTemporary lets the agent and all that it starts have temporary files of their own.
func makeTemporary(t *testing.T, h *host) {
	t.Helper()
	testkit.Must(t, os.Mkdir(h.temporary(), 0o700))
	t.Setenv("TMPDIR", h.temporary())
}

func (h *host) temporary() string { return filepath.Join(h.dir, "tmp") }

// try takes a job through its life.
func try(t *testing.T, c *chaos, f rig.Failpoint) {
	t.Helper()
	c.failpoint = f
	if rig.Exhaustive() {
		c.stopped = 10 * time.Second
	}
	put := func() error { return c.put("witness") }
	recovery := strings.Contains(f.Name, ".recover")
	if !recovery {
		c.arm()
	}
	c.insist("registration", put)
	if c.eventually("start or failure", func() bool {
		c.mend()
		return c.failed() || len(c.witnesses("starts")) > 0
	}); c.failed() {
		// A disk with a fault is not a shortage that passes: the job failed, and is registered again.
		if f.Action != "EIO" {
			t.Errorf("the task failed")
		}
		c.insist("second registration", put)
		c.awaitStarts(1)
	}
	if recovery {
		c.eventually("the running task", func() bool { return c.list()[0].ClientStatus == "running" }) // its handle is persisted
		c.arm()
		c.end(syscall.SIGKILL)
	}
	c.mend()
	c.insist("restart", c.restart)
	c.awaitStarts(2)
	c.awaitEvents()
	stopped := c.insistOnStop()
	if n := len(slices.DeleteFunc(c.list(), func(a allocation) bool { return a.ClientStatus == "failed" })); n != 1 {
		t.Errorf("%d allocations, want 1", n)
	}
	c.eventually("the step", func() bool { c.mend(); return c.chaotic.Reached(f) == 1 })
	c.checkNothingLeft(stopped)
}

// awaitEvents waits until there is an event of each start that the witness has seen. A start over which a process of
// ours was killed may have failed after the task's first instructions.
func (c *chaos) awaitEvents() {
	c.t.Helper()
	c.eventually("an event of each start", func() bool {
		c.mend()
		events := make(map[string]int)
		for _, a := range c.list() {
			for _, event := range a.TaskStates["t"].Events {
				events[event.Type]++
			}
		}
		starts, most := len(c.witnesses("starts")), events["Started"]
		if c.failpoint.Action == "kill" {
			most += events["Driver Failure"]
		}
		return events["Started"] <= starts && starts <= most
	})
}

// put registers the job by another name.
func (c *chaos) put(name string) error {
	text := strings.Replace(witness, `job "witness"`, fmt.Sprintf("job %q", name), 1)
	_, err := c.call(http.MethodPost, "/v1/jobs", map[string]any{"Source": text, "Filename": "test.nomad.hcl"})
	return err
}

// arm lets the step happen.
func (c *chaos) arm() { testkit.Must(c.t, c.chaotic.Arm(c.failpoint)) }

// mend lets a stopped process go on after a while, and starts the agent again if it died.
func (c *chaos) mend() {
	c.t.Helper()
	for _, pid := range append(c.processes(), c.agentPID()) {
		if rig.Stopped(pid) {
			pause(c.stopped)
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
		}
	}
	dead := c.cmd == nil
	if !dead {
		select {
		case err := <-c.ended:
			c.t.Log("the agent ended:", err)
			dead = true
		default:
		}
	}
	if dead {
		c.launch()
	}
}

func (c *chaos) agentPID() int {
	if c.cmd == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// insist repeats a request until it is answered with success.
func (c *chaos) insist(what string, request func() error) {
	c.t.Helper()
	var err error
	c.eventually("the "+what, func() bool {
		c.mend()
		done := make(chan error, 1)
		go func() { done <- request() }()
		for {
			select {
			case err = <-done:
				return err == nil
			case <-time.After(50 * time.Millisecond):
				c.mend()
			}
		}
	})
}

func (c *chaos) restart() error {
	all := slices.DeleteFunc(c.list(), func(a allocation) bool { return a.ClientStatus != "running" })
	if len(all) == 0 {
		return errors.New("no allocation runs")
	}
	_, err := c.call(http.MethodPost, "/v1/client/allocation/"+all[0].ID+"/restart", map[string]any{})
	return err
}

// list returns the allocations; none while the agent does not answer.
func (c *chaos) list() (all []allocation) {
	text, err := c.call(http.MethodGet, "/v1/allocations", nil)
	if err != nil {
		return []allocation{{ClientStatus: "pending"}}
	}
	testkit.Must(c.t, json.Unmarshal(text, &all))
	return all
}

// failed reports whether the only allocation has failed.
func (c *chaos) failed() bool {
	all := c.list()
	return len(all) == 1 && all[0].ClientStatus == "failed"
}

// awaitStarts waits for a start of the task.
func (c *chaos) awaitStarts(n int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("start %d", n), func() bool {
		c.mend()
		return len(c.witnesses("starts")) >= n
	})
}

// witnesses reads a file of all allocations' shared folders.
func (c *chaos) witnesses(name string) (lines []string) {
	dirs := testkit.Value(filepath.Glob(filepath.Join(c.data(), "alloc", "*")))(c.t)
	for _, dir := range dirs {
		lines = append(lines, c.lines(filepath.Base(dir), name)...)
	}
	return lines
}

// insistOnStop stops the witness, waits for the end, and returns when it was stopped.
func (c *chaos) insistOnStop() (stopped time.Time) {
	c.t.Helper()
	c.insist("stop", func() error {
		_, err := c.call(http.MethodDelete, "/v1/job/witness", nil)
		return err
	})
	stopped = time.Now()
	c.awaitEnd()
	return stopped
}

// awaitEnd waits until no allocation runs, and the agent answers.
func (c *chaos) awaitEnd() {
	c.t.Helper()
	c.eventually("the end of all allocations", func() bool {
		c.mend()
		return !slices.ContainsFunc(c.list(), func(a allocation) bool { return a.ClientStatus == "running" || a.ClientStatus == "pending" })
	})
}

// leftLimit is how long after the last stop something of a task may be left.
const leftLimit = 5 * time.Second

// checkNothingLeft looks for what must not be once all tasks have been stopped.
func (c *chaos) checkNothingLeft(stopped time.Time) {
	c.t.Helper()
	if doubled := c.witnesses("doubled"); len(doubled) > 0 {
		c.t.Errorf("tasks ran %d times beside themselves", len(doubled))
	}
	limit := leftLimit
	if c.failpoint.Action == "stop" {
		limit += c.stopped
	}
	left := c.left()
	for ; len(left) > 0 && time.Since(stopped) < limit; left = c.left() {
		pause(25 * time.Millisecond)
		c.mend()
	}
	c.t.Logf("%v after the last stop %d things were left", time.Since(stopped).Round(10*time.Millisecond), len(left))
	for _, thing := range left {
		c.t.Error(thing)
	}
	c.disarm() // what was not reached must not be from here on
	c.mend()
	c.awaitAnswer()
	c.end(syscall.SIGTERM)
	if left, err := os.ReadDir(c.temporary()); err != nil || len(left) > 0 {
		c.t.Errorf("left among the temporary files: %v, %v", left, err)
	}
}

// left lists processes, directories of executors, and cgroups.
func (c *chaos) left() (all []string) {
	c.t.Helper()
	for _, pid := range c.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // of a process that ends: none
		all = append(all, fmt.Sprintf("process %d: %q", pid, line))
	}
	entries := testkit.Value(os.ReadDir(filepath.Join(c.data(), "run")))(c.t)
	for _, entry := range entries {
		all = append(all, "directory of executor "+entry.Name())
	}
	return append(all, c.parent.Below()...)
}

func (c *chaos) disarm() {
	c.t.Helper()
	testkit.Must(c.t, c.chaotic.Disarm())
}
