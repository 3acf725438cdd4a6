// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package nomad_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// witness is a job whose task says when it starts, and when it runs beside another of its name.
const witness = `
job %q {
  group "g" {
    restart {
      attempts = 100
      interval = "24h"
      delay    = "1s"
      mode     = "delay"
    }
    reschedule {
      delay          = "5s"
      delay_function = "constant"
      unlimited      = true
    }
    task "t" {
      driver       = "tacho"
      kill_timeout = "1s"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          exec 9>$0.lock; flock -n 9 || echo doubled >> $0.doubled
          echo $$ >> $0.starts
          exec sleep 100000
        EOT
        , %q]
      }
      resources {
        cpu    = 10
        memory = 16
      }
    }
  }
}
`

// TestFailpoints lets the plugin or an executor die, hang or get an error at each step: a task runs once beside
// itself, it starts, and nothing is left of it once its job is stopped.
func TestFailpoints(t *testing.T) {
	if !rig.Exhaustive() {
		t.Skip("it takes half an hour: set TACHO_CHAOS=all")
	}
	requireNomad(t)
	binary := rig.BuildWithFailpoints(t)
	a := startBinary(t, binary.Binary, false, "")
	c := &chaos{agent: a, chaotic: rig.Chaotic{Binary: filepath.Join(a.dir, "plugins", "tacho")}}
	ctx, cancel := context.WithCancel(t.Context())
	var resuming sync.WaitGroup
	resuming.Go(func() { c.resume(ctx) })
	defer func() { cancel(); resuming.Wait() }()
	prefixes := []string{"driver.", "plugin.", "client.", "executor."}
	all := rig.Failpoints(t, func(name string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	rig.TryEach(t, all, len(all), func(t *testing.T, f rig.Failpoint) {
		outer := a.t
		defer func() { a.t = outer }()
		a.t = t
		c.try(f, strings.NewReplacer(".", "-", "/", "-").Replace(f.String()))
	})
}

// chaos is an agent with a plugin that fails.
type chaos struct {
	*agent
	chaotic rig.Chaotic
}

// resume lets stopped processes of ours go on after a while.
func (c *chaos) resume(ctx context.Context) {
	const interval, while = 50 * time.Millisecond, 10 * time.Second
	for ctx.Err() == nil {
		for _, pid := range c.ours() {
			if rig.Stopped(pid) {
				pause(ctx, while)
				_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
			}
		}
		pause(ctx, interval)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// ours lists the processes of the binary.
func (c *chaos) ours() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == c.chaotic.Binary {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// lines counts what the witness of a job has written.
func (c *chaos) lines(job, name string) int {
	text, _ := os.ReadFile(filepath.Join(c.dir, job+"."+name)) // there is none before the first
	return strings.Count(string(text), "\n")
}

// try takes a job through its life.
func (c *chaos) try(f rig.Failpoint, job string) {
	c.t.Helper()
	const limit = 90 * time.Second
	testkit.Must(c.t, c.chaotic.Disarm())
	arm := func() { testkit.Must(c.t, c.chaotic.Arm(f)) }
	recovery := strings.Contains(f.Name, ".recover")
	if !recovery {
		arm()
	}
	if _, err := c.cliInput(fmt.Sprintf(witness, job, filepath.Join(c.dir, job)), "job", "run", "-detach", "-"); err != nil {
		c.t.Fatal(err)
	}
	c.await("start", limit, func() bool { return c.runningOf(job) == 1 && c.lines(job, "starts") > 0 })
	if recovery {
		arm()
		testkit.Must(c.t, syscall.Kill(c.pluginProcess(), syscall.SIGKILL))
		c.await("recovery", limit, func() bool { return c.chaotic.Reached(f) > 0 && c.pluginProcess() != 0 })
	}
	c.awaitEvents(f, job) // before the restart: Nomad keeps ten events
	before := c.lines(job, "starts")
	c.await("restart", limit, func() bool {
		if c.lines(job, "starts") > before {
			return true
		}
		_, err := c.cli("job", "restart", "-yes", "-on-error=fail", job)
		return err == nil && c.lines(job, "starts") > before
	})
	began := time.Now()
	if _, err := c.cli("job", "stop", "-detach", "-purge", job); err != nil {
		c.t.Fatal(err)
	}
	c.await("end of all executors", limit, func() bool {
		left, err := os.ReadDir(c.runtime)
		return err == nil && len(left) == 0
	})
	c.t.Logf("nothing is left after %s", time.Since(began).Round(time.Second))
	if n := c.lines(job, "doubled"); n > 0 {
		c.t.Errorf("the task ran %d times beside itself", n)
	}
	if n := c.chaotic.Reached(f); n != 1 {
		c.t.Errorf("the step was reached %d times", n)
	}
}

// awaitEvents waits until there is an event of each start. A plugin that dies over a start kills the task, of which
// its host was not told.
func (c *chaos) awaitEvents(f rig.Failpoint, job string) {
	c.t.Helper()
	c.await("event of each start", time.Minute, func() bool {
		var list []allocState
		if c.get("/v1/job/"+job+"/allocations", &list) != nil {
			return false
		}
		events := 0
		for _, alloc := range list {
			for _, event := range alloc.TaskStates["t"].Events {
				if event.Type == "Started" {
					events++
				}
			}
		}
		starts := c.lines(job, "starts")
		return starts == events || starts > events && f.Action == "kill"
	})
}
