// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
)

// once is a job whose tasks witness each of their starts, and whose policy allows one.
func once(name string, count int) string {
	return shellJob(name, "batch", fmt.Sprintf("count = %d\n%s", count, noRestart), 32,
		"echo $$ >> $NOMAD_ALLOC_DIR/data/starts; exec sleep 1000")
}

// TestKilledAgentStartsOnce kills the agent while it starts tasks: each starts once, and none runs beside itself.
func TestKilledAgentStartsOnce(t *testing.T) {
	rounds := rig.Tries(4)
	if testing.Short() {
		rounds = 2
	}
	h := newHost(t, publishing)
	random := rig.Random(t)
	for round := range rounds {
		name := fmt.Sprintf("once%d", round)
		h.begin()
		h.run(once(name, 8))
		pause(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		h.end(syscall.SIGKILL)
		h.begin()
		var all []allocation
		h.eventually("all tasks", func() bool {
			all = slices.DeleteFunc(h.allocations(), func(a allocation) bool { return !strings.HasPrefix(a.Name, name+".") })
			for _, a := range all {
				if a.ClientStatus != "running" || len(h.lines(a.ID, "starts")) == 0 {
					return false
				}
			}
			return len(all) == 8
		})
		for _, a := range all {
			if pids := h.lines(a.ID, "starts"); len(pids) != 1 || a.TaskStates["t"].Restarts != 0 {
				t.Errorf("round %d: %s was started as %v, and has %d restarts", round, a.Name, pids, a.TaskStates["t"].Restarts)
			}
		}
		h.stop(name + "?purge=true")
		h.eventually("the end of all processes", func() bool { return len(h.processes()) == 0 })
		h.end(syscall.SIGTERM)
	}
}
