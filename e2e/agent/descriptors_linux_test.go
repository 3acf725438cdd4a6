// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// TestStartsWithoutDescriptors takes the agent's descriptors away: starts that fail for that take no attempt, and are
// made once there are descriptors again.
func TestStartsWithoutDescriptors(t *testing.T) {
	h := hostWithAgent(t, "")
	pid := h.cmd.Process.Pid
	var before unix.Rlimit
	testkit.Must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before))
	const policy = "restart {\n attempts = 1\n delay = \"1s\"\n mode = \"fail\"\n}"
	h.running(shellJob("poor", "service", policy, 32, "exec sleep 1000"))
	few := unix.Rlimit{Cur: 12, Max: before.Max} // fewer than a start takes
	testkit.Must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil))
	_, tasks := h.executors()
	testkit.Must(t, unix.Kill(tasks[0], unix.SIGKILL)) // which is the attempt
	d := h.find("poor", "a retry", func(d *allocation) bool {
		return d.event("Restarting", ", which counts as no attempt") != ""
	})
	if said := d.event("Driver Failure", "too many open files"); !strings.Contains(said, "open files") {
		t.Errorf("events %s", fmt.Sprint(d.TaskStates["t"].Events))
	}
	testkit.Must(t, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil))
	d = h.find("poor", "the start", func(d *allocation) bool { return d.ClientStatus == "running" })
	if d.TaskStates["t"].Failed {
		t.Errorf("%+v", d)
	}
	h.stop("poor")
}
