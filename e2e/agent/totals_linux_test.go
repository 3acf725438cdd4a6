// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const countedTelemetry = "telemetry {\n  publish_allocation_metrics = true\n  collection_interval = \"100ms\"\n  prometheus_metrics = true\n}\n"

// twoRestarts is a policy with a delay.
const twoRestarts = "restart {\n attempts = 2\n interval = \"1h\"\n delay = %q\n mode = \"fail\"\n}"

// counters reads the counters of tasks again and again, over all agents of a host.
type counters struct {
	h    *host
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex // guards following
	newest map[string]float64
	fell   []string
	reads  int
}

func watchCounters(h *host) *counters {
	c := &counters{h: h, stop: make(chan struct{}), newest: map[string]float64{}}
	c.done.Go(func() {
		ticker := time.NewTicker(25 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.read()
			case <-c.stop:
				return
			}
		}
	})
	return c
}

// read takes one look. An agent that does not run has nothing to show.
func (c *counters) read() {
	page, err := c.h.call(http.MethodGet, "/v1/metrics?format=prometheus", nil)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	for lines := bufio.NewScanner(bytes.NewReader(page)); lines.Scan(); {
		series, text, _ := strings.Cut(lines.Text(), " ")
		if !strings.Contains(series, "_total{") || !strings.Contains(series, `task="t"`) {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			c.fell = append(c.fell, lines.Text()+": "+err.Error())
		}
		if before := c.newest[series]; v < before {
			c.fell = append(c.fell, fmt.Sprintf("%s from %v to %v", series, before, v))
		}
		c.newest[series] = v
	}
}

// of returns the newest value of a group's counter; -1 if there was none.
func (c *counters) of(group, name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for series, v := range c.newest {
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, fmt.Sprintf("task_group=%q", group)) {
			return v
		}
	}
	return -1
}

// end ends the reading, and reports what has fallen.
func (c *counters) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.done.Wait()
	c.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fell) > 0 {
		t.Errorf("counters went down:\n%s", strings.Join(c.fell, "\n"))
	}
	t.Logf("%d series, read %d times", len(c.newest), c.reads)
}

// TestCountersGoOn kills the agent between and in the starts of a task that is killed at its own limit.
func TestCountersGoOn(t *testing.T) {
	h := hostWithAgent(t, countedTelemetry)
	h.run(shellJob("counted", "service", fmt.Sprintf(twoRestarts, "500ms"), 24,
		"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.4; exec tail /dev/zero"))
	c := watchCounters(h)
	await := func(what, name string, least float64) {
		t.Helper()
		h.eventually(what, func() bool { return c.of("g", name) >= least })
	}
	await("the first end", "tacho_task_exits_total", 1)
	h.end(syscall.SIGKILL)
	h.begin()
	await("the second end", "tacho_task_exits_total", 2)
	await("the third start", "tacho_task_restarts_total", 2)
	h.end(syscall.SIGKILL)
	h.begin()
	await("the third end", "tacho_task_exits_total", 3)
	h.eventually("the end of the job", func() bool { return h.allocations()[0].ClientStatus == "failed" })
	c.end(t)
	if d := h.allocations()[0]; d.event("Driver", " before: ") == "" { // of the sentence of an end
		t.Errorf("no event has the last reading: %+v", d.TaskStates["t"].Events)
	}
	for name, want := range map[string]float64{"exits": 3, "oom_kills": 3, "restarts": 2} {
		if got := c.of("g", "tacho_task_"+name+"_total"); got != want {
			t.Errorf("%v %s, want %v", got, name, want)
		}
	}
}

// executors lists the executors below a runtime directory that have not ended.
func executors(t *testing.T, dir string) (pids []int) {
	t.Helper()
	paths := testkit.Value(filepath.Glob(filepath.Join(dir, "*", "*", "executor.json")))(t)
	for _, path := range paths {
		var address struct{ Executor struct{ PID int } }
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &address) != nil {
			continue // it is about to be removed
		}
		pids = append(pids, address.Executor.PID)
	}
	return pids
}

// TestCountersOfLostExecutors kills the executors of a task, in the first start with the agent there, in the second
// without. Readings are rare: what was used since the last one is in the kernel's counters only.
func TestCountersOfLostExecutors(t *testing.T) {
	rig.Require(t)
	parent := rig.NeedParent(t)
	h := newHost(t, "")
	run := filepath.Join(h.dir, "run")
	h.configure("telemetry {\n  publish_allocation_metrics = true\n  collection_interval = \"1m\"\n  prometheus_metrics = true\n}\n" +
		fmt.Sprintf("plugin \"tacho\" {\n  config {\n    runtime_dir   = %q\n    cgroup_parent = %q\n  }\n}\n", run, parent.Path))
	h.begin()
	// It uses one CPU as long as it runs.
	h.run(shellJob("burning", "service", fmt.Sprintf(twoRestarts, "200ms"), 24, "while :; do :; done"))
	c := watchCounters(h)
	uses := func(least time.Duration) {
		t.Helper()
		h.eventually("CPU time of the task", func() bool {
			used, err := parent.CPU()
			return err == nil && used >= least
		})
	}
	kill := func() {
		t.Helper()
		pids := executors(t, run)
		if len(pids) != 1 {
			t.Fatalf("executors %v, want one", pids)
		}
		testkit.Must(t, syscall.Kill(pids[0], syscall.SIGKILL))
	}
	uses(500 * time.Millisecond)
	kill()
	h.eventually("the second start", func() bool { return c.of("g", "tacho_task_restarts_total") == 1 })
	used, err := parent.CPU()
	testkit.Must(t, err)
	uses(used + 500*time.Millisecond)
	h.end(syscall.SIGKILL)
	kill()
	h.begin()
	h.eventually("the third start", func() bool { return c.of("g", "tacho_task_restarts_total") == 2 })
	h.stop("burning")
	h.eventually("the last end", func() bool { return h.allocations()[0].ClientStatus == "complete" })
	c.end(t)
	if used, err = parent.CPU(); err != nil {
		t.Fatal(err)
	}
	counted := time.Duration(c.of("g", "tacho_task_cpu_seconds_total") * float64(time.Second))
	if missing := used - counted; missing > 250*time.Millisecond || missing < -10*time.Millisecond {
		t.Errorf("%v of CPU time counted, %v used", counted, used)
	}
}
