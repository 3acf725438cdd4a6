// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const (
	groupLimit = 64 << 20
	// tooMuchOnce is a command that needs more memory than any limit has, the first time it is started.
	tooMuchOnce = "m=$NOMAD_ALLOC_DIR/data/started; if [ -e $m ]; then exec sleep 1000; fi; echo >> $m; exec tail /dev/zero"
	tooMuch     = "exec tail /dev/zero"
)

// await runs a job whose policy allows no restart, and waits until its allocation is as wanted.
func (h *host) await(name, script string, memoryMiB int, what string, is func(*allocation) bool) allocation {
	h.t.Helper()
	h.run(shellJob(name, "service", noRestart, memoryMiB, script))
	return h.find(name, what, is)
}

// find waits until the allocation of a job is as wanted.
func (h *host) find(name, what string, is func(*allocation) bool) allocation {
	h.t.Helper()
	var d allocation
	h.eventually(what, func() bool {
		for _, a := range h.allocations() {
			if a.JobID == name {
				h.get("/v1/allocation/"+a.ID, &d)
				return is(&d)
			}
		}
		return false
	})
	return d
}

// event returns the message of the first event of a type that has a text in it; empty if there is none.
func (d *allocation) event(kind, text string) string {
	for _, e := range d.TaskStates["t"].Events {
		if e.Type == kind && strings.Contains(e.DisplayMessage, text) {
			return e.DisplayMessage
		}
	}
	return ""
}

// TestMemoryOfOthersTakesNoAttempt has the group above a task run out of memory: the task is not at fault, and is
// started again although its policy allows no restart. At its own limit it fails.
func TestMemoryOfOthersTakesNoAttempt(t *testing.T) {
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.LimitMemory(groupLimit))
	driver := fmt.Sprintf("plugin \"tacho\" {\n  config {\n    cgroup_parent = %q\n  }\n}\n", parent.Path)
	h := hostWithAgent(t, driver)

	d := h.await("shared", tooMuchOnce, 512, "the second start", func(d *allocation) bool {
		return d.ClientStatus == "running" && d.TaskStates["t"].Restarts == 1
	})
	why := d.event("Restarting", "which counts as no attempt")
	if !strings.Contains(why, "out of memory in a parent cgroup shared with other tasks: retry 1 of 10") {
		t.Errorf("events %+v", d.TaskStates["t"].Events)
	}
	if d.event("Driver", "another start may end better") == "" {
		t.Errorf("the driver's event does not say it: %+v", d.TaskStates["t"].Events)
	}

	failed := func(d *allocation) bool { return d.ClientStatus == "failed" }
	d = h.await("own", tooMuch, 24, "the end at the own limit", failed)
	if d.TaskStates["t"].Restarts != 0 || d.event("Not Restarting", "policy allows no restarts") == "" {
		t.Errorf("at its own limit: %+v", d.TaskStates["t"])
	}
	for _, e := range d.TaskStates["t"].Events {
		isEnd := e.Type == "Terminated" || e.Type == "Driver" && e.Details["outcome"] != ""
		if kills := e.Details["cgroup_memory_events_oom_kill_total"]; isEnd && kills != "1" {
			t.Errorf("%q kills in %+v, want 1", kills, e)
		}
	}

	h.configure(driver + "client {\n  retry_host_oom = false\n}\n")
	h.hangup()
	h.eventually("the reload", func() bool { return h.logged("reloaded configuration") })
	d = h.await("off", tooMuch, 512, "the end without a retry", failed)
	if d.TaskStates["t"].Restarts != 0 || d.event("Not Restarting", "policy allows no restarts") == "" {
		t.Errorf("switched off: %+v", d.TaskStates["t"])
	}
}
