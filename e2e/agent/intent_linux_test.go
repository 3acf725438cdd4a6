// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
)

// TestRestartOutlivesAKill kills the agent while a restart that a user asked for is under way: it is finished, and
// spends no attempt. TACHO_TRIES says how often.
func TestRestartOutlivesAKill(t *testing.T) {
	h := hostWithAgent(t, "")
	random := rig.Random(t)
	// It takes 400 ms to end, and its policy allows no restart.
	h.run(shellJob("reluctant", "service", noRestart, 32,
		"trap 'sleep 0.4; exit 9' INT; echo $$ >> $NOMAD_ALLOC_DIR/data/starts; while :; do sleep 0.05; done"))
	id := h.allocations()[0].ID
	starts := func(n int) {
		t.Helper()
		h.eventually("the next start", func() bool {
			a := h.allocations()[0]
			if a.ClientStatus == "failed" || a.TaskStates["t"].Failed {
				t.Fatalf("the service is %s: %+v", a.ClientStatus, a.TaskStates["t"])
			}
			return a.ClientStatus == "running" && len(h.lines(id, "starts")) == n
		})
	}
	starts(1)
	for i := range rig.Tries(4) {
		if _, err := h.call(http.MethodPut, "/v1/client/allocation/"+id+"/restart", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		pause(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		h.end(syscall.SIGKILL)
		h.begin()
		starts(2 + i)
	}
}

// TestStopWhileStarting stops jobs at any moment of their start, with all processors busy: nothing is left.
func TestStopWhileStarting(t *testing.T) {
	h := hostWithAgent(t, publishing)
	random := rig.Random(t)
	var idle atomic.Bool
	defer idle.Store(true)
	for range runtime.NumCPU() {
		go func() {
			for !idle.Load() { // busy
			}
		}()
	}
	for i := range rig.Tries(8) {
		name := fmt.Sprintf("brief%d", i)
		h.run(once(name, 1))
		pause(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		h.stop(name)
	}
	h.eventually("the end of all processes", func() bool { return len(h.processes()) == 0 })
	h.eventually("the end of all executors", func() bool {
		left, err := filepath.Glob(filepath.Join(h.data(), "run", "*"))
		return err == nil && len(left) == 0
	})
	for _, a := range h.allocations() {
		groups, err := filepath.Glob("/sys/fs/cgroup/*/tacho-" + a.ID[:8] + "*")
		if err != nil || len(groups) > 0 {
			t.Errorf("%s: left %v, %v", a.Name, groups, err)
		}
	}
}
