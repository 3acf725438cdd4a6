// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// executors lists the executors of the data folder, and the other processes of its tasks.
func (h *host) executors() (executors, others []int) {
	h.t.Helper()
	for _, pid := range h.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // of a process that ends: none
		switch arguments := bytes.Split(line, []byte{0}); {
		case len(arguments) > 1 && string(arguments[1]) == "executor":
			executors = append(executors, pid)
		case len(arguments) > 1 && string(arguments[1]) != "agent":
			others = append(others, pid)
		}
	}
	return executors, others
}

// freeze stops the executor of the running task, and returns the task's process.
func (h *host) freeze() (task int) {
	h.t.Helper()
	executors, others := h.executors()
	if len(executors) != 1 || len(others) != 1 {
		h.t.Fatalf("executors %v, tasks %v", executors, others)
	}
	rig.Stop(h.t, executors[0])
	return others[0]
}

// refused makes a request that the frozen executor would have to answer.
func (h *host) refused(path string, body any) {
	h.t.Helper()
	if text, err := h.call(http.MethodPost, path, body); err == nil {
		h.t.Errorf("%s: %s", path, text)
	}
}

// hungCalls are the calls during which an executor does not answer.
func hungCalls() map[string]func(h *host) {
	return map[string]func(*host){
		"start": func(h *host) {
			h.begin()
			h.run(sleeper())
			h.eventually("the executor", func() bool {
				executors, _ := h.executors()
				return len(executors) > 0 && syscall.Kill(executors[0], syscall.SIGSTOP) == nil
			})
		},
		"recover": func(h *host) {
			h.begin()
			h.running(sleeper())
			h.end(syscall.SIGKILL)
			h.freeze()
			h.begin()
		},
		"stats": func(h *host) {
			h.configure(publishing)
			h.begin()
			id := h.running(sleeper())
			h.freeze()
			var s stats
			h.get("/v1/client/allocation/"+id+"/stats", &s)
		},
		"signal": func(h *host) {
			h.begin()
			id := h.running(sleeper())
			h.freeze()
			h.refused("/v1/client/allocation/"+id+"/signal", map[string]string{"Signal": "SIGUSR1"})
		},
		"exec": func(h *host) {
			h.begin()
			id := h.running(sleeper())
			h.freeze()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, rig.Tacho(), "alloc", "exec", id, "true")
			cmd.Env = append(os.Environ(), "TACHO_ADDR=unix:"+h.socket())
			if said, err := cmd.CombinedOutput(); err == nil || ctx.Err() != nil {
				h.t.Errorf("exec: %v: %s", err, said)
			}
		},
		"stop": func(h *host) {
			h.begin()
			h.running(sleeper())
			h.freeze()
		},
		"remove": func(h *host) { // the task has ended, which the executor cannot say
			h.begin()
			h.running(sleeper())
			testkit.Must(h.t, syscall.Kill(h.freeze(), syscall.SIGKILL))
		},
	}
}

// TestHungExecutor stops the executor at each call: each answers, and a stop ends the task within the grace and 15 s.
func TestHungExecutor(t *testing.T) {
	for name, call := range hungCalls() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, "")
			call(h)
			began := time.Now()
			h.stop("sleeper")
			const grace = 5 * time.Second
			h.eventually("the end of the task", func() bool {
				executors, others := h.executors()
				return len(executors)+len(others) == 0
			})
			if took := time.Since(began); took > grace+15*time.Second {
				t.Errorf("the stop took %s", took)
			}
			h.eventually("the removal", func() bool {
				_, err := h.call(http.MethodPut, "/v1/system/gc", nil)
				return err == nil && len(h.allocations()) == 0
			})
			if left := testkit.Value(filepath.Glob(filepath.Join(h.data(), "run", "*")))(t); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}
