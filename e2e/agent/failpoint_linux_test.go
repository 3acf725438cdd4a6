// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
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

// TestFailpoints lets a process of ours die, hang or get an error at each step of a task's life. Whatever happens, a task
// runs once, ends when it is stopped, and leaves nothing. A selection is tried; with TACHO_CHAOS=all it is all.
func TestFailpoints(t *testing.T) {
	rig.Require(t)
	binary := buildWithFailpoints(t)
	tries := failpoints(t)
	if os.Getenv("TACHO_CHAOS") != "all" {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(tries), func(i, j int) { tries[i], tries[j] = tries[j], tries[i] })
		tries = tries[:min(len(tries), 10)]
	}
	for _, f := range tries {
		t.Run(f.name+"/"+f.action, func(t *testing.T) { f.try(t, binary) })
	}
	t.Run("churn", func(t *testing.T) { churn(t, binary, failpoints(t)) })
}

func buildWithFailpoints(t *testing.T) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "tacho")
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", binary, "github.com/tachograph/tacho")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// churn registers, restarts and stops jobs at random while random steps fail.
func churn(t *testing.T, binary string, all []failpoint) {
	rounds, seed := 20, uint64(time.Now().UnixNano())
	if os.Getenv("TACHO_CHAOS") == "all" {
		rounds = 1000
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := newChaos(t, binary)
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
	for _, name := range names {
		c.insist("stop of "+name, func() error {
			_, err := c.call(http.MethodDelete, "/v1/job/"+name, nil)
			if err != nil && strings.Contains(err.Error(), "404") {
				return nil // it was never registered
			}
			return err
		})
	}
	c.awaitEnd()
	c.checkNothingLeft()
}

// failpoint is a step and what happens at it.
type failpoint struct{ name, action string }

// failpoints finds the steps in the source.
func failpoints(t *testing.T) (all []failpoint) {
	t.Helper()
	call := regexp.MustCompile(`failpoint\.(At|Err)\("([^"]+)"\)`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range call.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(match[2], "run.") { // of tacho run: not here
				continue
			}
			all = append(all, failpoint{match[2], "kill"}, failpoint{match[2], "stop"})
			if match[1] == "Err" {
				for _, errno := range []string{"ENOSPC", "EMFILE", "ENOMEM", "EIO"} {
					all = append(all, failpoint{match[2], errno})
				}
			}
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d failpoints, %v", len(all), err)
	}
	return all
}

// chaos is an agent that is started again whenever it dies.
type chaos struct {
	*host
	failpoint
	dir    string
	parent *rig.Parent
}

// newChaos starts an agent.
func newChaos(t *testing.T, binary string) *chaos {
	t.Helper()
	parent, err := rig.NewParent(t, rig.Self())
	if err != nil {
		t.Skip(err)
	}
	h := newHost(t, publishing+fmt.Sprintf("plugin \"tacho\" {\n  config {\n    cgroup_parent = %q\n  }\n}\n", parent.Path))
	h.binary = filepath.Join(h.dir, "tacho")
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{host: h, parent: parent, dir: h.binary + ".failpoints"}
	if err := errors.Join(os.WriteFile(h.binary, text, 0o755), os.Mkdir(c.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	h.begin()
	return c
}

// try takes a job through its life.
func (f failpoint) try(t *testing.T, binary string) {
	c := newChaos(t, binary)
	c.failpoint = f
	put := func() error { return c.put("witness") }
	recovery := strings.HasPrefix(f.name, "agent.recover")
	if !recovery {
		c.arm()
	}
	c.insist("registration", put)
	if c.eventually("start or failure", func() bool {
		c.mend()
		return c.failed() || len(c.witnesses("starts")) > 0
	}); c.failed() {
		// A disk with a fault is not a shortage that passes: the job failed, and is registered again.
		if c.action != "EIO" {
			t.Errorf("the task failed")
		}
		c.insist("second registration", put)
		c.awaitStarts(1)
	}
	if recovery {
		c.arm()
		c.end(syscall.SIGKILL)
	}
	c.mend()
	c.insist("restart", c.restart)
	c.awaitStarts(2)
	c.insist("stop", func() error {
		_, err := c.call(http.MethodDelete, "/v1/job/witness", nil)
		return err
	})
	c.awaitEnd()
	if n := len(slices.DeleteFunc(c.list(), func(a allocation) bool { return a.ClientStatus == "failed" })); n != 1 {
		t.Errorf("%d allocations, want 1", n)
	}
	if hit, err := filepath.Glob(filepath.Join(c.dir, f.name+".*")); len(hit) != 1 || err != nil {
		t.Errorf("the step was never reached: %v", err)
	}
	c.checkNothingLeft()
}

// put registers the job by another name.
func (c *chaos) put(name string) error {
	text := strings.Replace(witness, `job "witness"`, fmt.Sprintf("job %q", name), 1)
	_, err := c.call(http.MethodPost, "/v1/jobs", map[string]any{"Source": text, "Filename": "test.nomad.hcl"})
	return err
}

// arm lets the step happen.
func (c *chaos) arm() {
	if err := os.WriteFile(filepath.Join(c.dir, c.name), []byte(c.action), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// mend lets a stopped process go on after a while, and starts the agent again if it died.
func (c *chaos) mend() {
	c.t.Helper()
	for _, pid := range append(c.processes(), c.agentPID()) {
		if stopped(pid) {
			pause(time.Second)
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

// stopped reports whether a process is stopped.
func stopped(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // none of a process that is gone
	_, rest, found := bytes.Cut(text[min(len(text), max(0, bytes.LastIndexByte(text, ')'))):], []byte(") "))
	return found && rest[0] == 'T'
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
	if err := json.Unmarshal(text, &all); err != nil {
		c.t.Fatal(err)
	}
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
	found, err := filepath.Glob(filepath.Join(c.data(), "alloc", "*", "alloc", "data", name))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			c.t.Fatal(err)
		}
		lines = append(lines, strings.Fields(string(text))...)
	}
	return lines
}

// awaitEnd waits until no allocation runs, and the agent answers.
func (c *chaos) awaitEnd() {
	c.t.Helper()
	c.eventually("the end of all allocations", func() bool {
		c.mend()
		return !slices.ContainsFunc(c.list(), func(a allocation) bool { return a.ClientStatus == "running" || a.ClientStatus == "pending" })
	})
}

// checkNothingLeft looks for what must not be once all tasks have ended.
func (c *chaos) checkNothingLeft() {
	c.t.Helper()
	if doubled := c.witnesses("doubled"); len(doubled) > 0 {
		c.t.Errorf("tasks ran %d times beside themselves", len(doubled))
	}
	c.eventually("the end of all processes", func() bool { c.mend(); return len(c.processes()) == 0 })
	c.eventually("the end of all executors", func() bool {
		left, err := os.ReadDir(filepath.Join(c.data(), "run"))
		return err == nil && len(left) == 0
	})
	c.disarm() // what was not reached must not be from here on
	c.mend()
	c.awaitAnswer()
	c.eventually("the end of all cgroups", func() bool { return len(c.parent.Below()) == 0 })
	c.end(syscall.SIGTERM)
}

// disarm removes what was armed and not reached.
func (c *chaos) disarm() {
	c.t.Helper()
	old := fmt.Sprintf("%s.%d", c.dir, time.Now().UnixNano())
	if err := errors.Join(os.Rename(c.dir, old), os.Mkdir(c.dir, 0o700)); err != nil {
		c.t.Fatal(err)
	}
}
