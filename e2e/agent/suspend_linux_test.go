// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// clock reads a clock, clock_gettime(2).
func clock(t *testing.T, id int32) time.Duration {
	t.Helper()
	var now unix.Timespec
	testkit.Must(t, unix.ClockGettime(id, &now))
	return time.Duration(now.Nano())
}

// suspend suspends the machine to memory for some seconds, and returns for how long it was.
func suspend(t *testing.T, seconds int) time.Duration {
	t.Helper()
	before := clock(t, unix.CLOCK_BOOTTIME) - clock(t, unix.CLOCK_MONOTONIC)
	testkit.Must(t, os.WriteFile("/sys/class/rtc/rtc0/wakealarm", []byte("+"+strconv.Itoa(seconds)), 0))
	testkit.Must(t, os.WriteFile("/sys/power/state", []byte("mem"), 0))
	return clock(t, unix.CLOCK_BOOTTIME) - clock(t, unix.CLOCK_MONOTONIC) - before
}

// TestSuspend suspends the machine while tasks run, and while one waits for its restart. No rate has the suspended time
// in it, the agent says that it did not run, and the restart comes in time.
func TestSuspend(t *testing.T) {
	if os.Getenv("TACHO_GUEST") == "" {
		t.Skip("suspends the machine: only in a guest")
	}
	if states, err := os.ReadFile("/sys/power/state"); err != nil || !strings.Contains(string(states), "mem") {
		t.Skipf("no state of sleep: %q, %v", states, err)
	}
	h := hostWithAgent(t, strings.Replace(publishing, "200ms", "2s", 1)) // an emulator is slow
	run := func(job string) {                                            // an emulator is slow, and the evaluation of a job has 5 s
		h.eventually("the registration", func() bool {
			_, err := h.call(http.MethodPost, "/v1/jobs", map[string]any{"Source": job, "Filename": "test.nomad.hcl"})
			return err == nil
		})
	}
	run(shellJob("busy", "service", noRestart, 32, "while :; do :; done"))
	run(shellJob("idle", "service", noRestart, 32, "exec sleep 1000"))
	run(shellJob("again", "service", "restart {\n attempts = 5\n interval = \"1h\"\n delay = \"12s\"\n mode = \"fail\"\n}", 32,
		"date +%s >> $NOMAD_ALLOC_DIR/data/starts; sleep 1; exit 3"))
	again := h.find("again", "the first end", func(d *allocation) bool { return d.event("Restarting", "") != "" })
	busy := h.find("busy", "the task", func(d *allocation) bool { return d.ClientStatus == "running" })
	pause(3 * time.Second)
	began := clock(t, unix.CLOCK_BOOTTIME)
	away := suspend(t, 20)
	if away < 10*time.Second {
		t.Skipf("suspended for %s only", away)
	}
	h.eventually("the restart", func() bool { return len(h.lines(again.ID, "starts")) > 1 })
	t.Logf("suspended for %s; restarted %s after it began", away, clock(t, unix.CLOCK_BOOTTIME)-began)
	if late := clock(t, unix.CLOCK_BOOTTIME) - began - away; late > 20*time.Second { // up to a quarter is added to the delay
		t.Errorf("restarted %s after the machine resumed, with a delay of 12 s", late)
	}
	const cpu = "cgroup_cpu_usage_seconds_total"
	type point struct {
		At           time.Time
		Mono         float64 `json:"mono_seconds"`
		Measurements map[string]float64
	}
	var history struct{ Tasks map[string][]point }
	var seen []time.Duration // between two readings, in the time of day and not in that of the kernel's clock
	h.eventually("a reading", func() bool {
		seen = nil
		h.get("/v1/client/allocation/"+busy.ID+"/history?measurements="+cpu, &history)
		points := slices.DeleteFunc(history.Tasks["t"], func(p point) bool { return len(p.Measurements) == 0 })
		for i := 1; i < len(points); i++ {
			passed := points[i].Mono - points[i-1].Mono
			if used := points[i].Measurements[cpu] - points[i-1].Measurements[cpu]; used > passed+0.1 {
				t.Errorf("%v s of CPU time in %v s", used, passed)
			}
			jump := points[i].At.Sub(points[i-1].At) - time.Duration(passed*float64(time.Second))
			if jump > time.Second {
				seen = append(seen, jump)
			}
		}
		return len(seen) > 0
	})
	if len(seen) != 1 || (seen[0]-away).Abs() > time.Second {
		t.Errorf("suspended for %s, and the readings say %v", away, seen)
	}
	if !h.logged("the agent did not run") {
		t.Error("the agent does not say that it did not run")
	}
	for _, job := range []string{"busy", "idle", "again"} {
		h.stop(job)
	}
}
