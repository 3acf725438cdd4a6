// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

// TestEndsWhileTheAgentIsAway stops and kills the agent, and has tasks end meanwhile: each has its exit code, its cause
// and the time at which it ended.
func TestEndsWhileTheAgentIsAway(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			h := hostWithAgent(t, publishing)
			const script = "d=$NOMAD_ALLOC_DIR/data; echo > $d/runs; while [ ! -e $d/end ]; do sleep 0.05; done; date +%%s > $d/ended; %s"
			ends := map[string]struct{ how, code, signal string }{
				"exits": {"exit 7", "7", "0"}, "crashes": {"kill -SEGV $$", "139", "11"}, "completes": {"exit 0", "0", "0"},
			}
			ids := map[string]string{}
			for name, end := range ends {
				h.run(shellJob(name, "batch", noRestart, 32, fmt.Sprintf(script, end.how)))
				ids[name] = h.find(name, "the task", func(d *allocation) bool { return len(d.TaskStates) > 0 && h.has(d.ID, "runs") }).ID
			}
			if signal == syscall.SIGKILL {
				h.end(signal)
			} else {
				testkit.Must(t, h.cmd.Process.Signal(signal))
			}
			for _, id := range ids {
				testkit.Must(t, os.WriteFile(filepath.Join(h.data(), "alloc", id, "alloc/data/end"), nil, 0o600))
			}
			for _, id := range ids {
				h.eventually("the end", func() bool { return h.has(id, "ended") })
			}
			pause(5 * time.Second)
			if signal == syscall.SIGKILL {
				h.begin()
			} else {
				testkit.Must(t, h.cmd.Process.Signal(syscall.SIGCONT))
			}
			for name, end := range ends {
				d := h.find(name, "its end", func(d *allocation) bool { return d.TaskStates["t"].State == "dead" })
				seconds := testkit.Value(strconv.ParseInt(h.lines(d.ID, "ended")[0], 10, 64))(t)
				if late := d.TaskStates["t"].FinishedAt.Sub(time.Unix(seconds, 0)); late < 0 || late > 4*time.Second {
					t.Errorf("%s: finished %s after its end", name, late)
				}
				for _, e := range d.TaskStates["t"].Events {
					got := [3]string{e.Details["exit_code"], e.Details["signal"], e.Details["cause"]}
					if want := [3]string{end.code, end.signal, "task"}; e.Type == "Terminated" && got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			}
		})
	}
}

// TestAgentOutOfMemory has the kernel kill the agent at the limit of its own group: the tasks run on, and the next agent
// calls none of them killed.
func TestAgentOutOfMemory(t *testing.T) {
	parent := rig.NeedMemory(t)
	testkit.Must(t, parent.LimitMemory(groupLimit))
	h := hostWithAgent(t, publishing)
	h.run(shellJob("steady", "service", "count = 3\n"+noRestart, 32, steady))
	h.eventually("the tasks", func() bool {
		all := h.allocations()
		return len(all) == 3 && !slices.ContainsFunc(all, func(a allocation) bool { return len(h.lines(a.ID, "beats")) == 0 })
	})
	agent := h.cmd.Process.Pid
	testkit.Must(t, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", agent), []byte("1000"), 0))
	procs := filepath.Join(parent.MemoryFolder(), "cgroup.procs")
	testkit.Must(t, os.WriteFile(procs, []byte(strconv.Itoa(agent)), 0))
	hog := exec.Command("/bin/sh", "-c", "echo $$ > "+procs+"; exec tail /dev/zero")
	testkit.Must(t, hog.Start())
	select {
	case err := <-h.ended:
		t.Log(err)
	case <-time.After(patience):
		t.Error("the agent was not killed")
	}
	_ = hog.Process.Kill() // the kernel may have killed it, too
	_ = hog.Wait()
	h.begin()
	for _, a := range h.allocations() {
		if a.event("Driver", "out of memory") != "" {
			t.Errorf("%s: %+v", a.Name, a.TaskStates["t"].Events)
		}
		h.checkWitnesses(a)
	}
	h.stop("steady")
}

// has reports whether a task has written a file.
func (h *host) has(allocID, name string) bool {
	_, err := os.Stat(filepath.Join(h.data(), "alloc", allocID, "alloc/data", name))
	return err == nil
}

// TestFullRuntimeDirectory fills the directory of the executors with bytes and with files: a start says so, takes no
// attempt and leaves nothing; tasks that run are recovered, and the start is made once there is room.
func TestFullRuntimeDirectory(t *testing.T) {
	rig.Require(t)
	for _, option := range []string{"size=300k", "nr_inodes=60"} {
		t.Run(option, func(t *testing.T) {
			runtime := testkit.Value(os.MkdirTemp("/tmp", "run"))(t)
			t.Cleanup(func() { testkit.NoError(t, os.Remove(runtime)) })
			if err := unix.Mount("tmpfs", runtime, "tmpfs", 0, "mode=700,"+option); err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { testkit.NoError(t, unix.Unmount(runtime, unix.MNT_DETACH)) })
			h := hostWithAgent(t, fmt.Sprintf("plugin \"tacho\" {\n  config {\n    runtime_dir = %q\n  }\n}\n", runtime))
			running := func(d *allocation) bool { return d.ClientStatus == "running" }
			h.run(shellJob("before", "service", noRestart, 32, "exec sleep 1000"))
			h.find("before", "the task", running)
			h.run(shellJob("dies", "batch", noRestart, 32, "while [ ! -e $NOMAD_ALLOC_DIR/data/end ]; do sleep 0.05; done; exit 4"))
			dies := h.find("dies", "the task", running).ID
			var filling []string
			for i := range 1000 {
				path := filepath.Join(runtime, fmt.Sprint("fill", i))
				filling = append(filling, path)
				if os.WriteFile(path, make([]byte, 4096), 0o600) != nil {
					break
				}
			}
			const policy = "restart {\n attempts = 0\n delay = \"1s\"\n mode = \"fail\"\n}"
			h.run(shellJob("late", "service", policy, 32, "exec sleep 1000"))
			h.find("late", "a retry", func(d *allocation) bool {
				return d.event("Restarting", "no space left on device: retry 2 of 10, which counts as no attempt") != ""
			})
			h.end(syscall.SIGKILL)
			testkit.Must(t, os.WriteFile(filepath.Join(h.data(), "alloc", dies, "alloc/data/end"), nil, 0o600))
			h.begin()
			h.find("before", "the recovery", running)
			d := h.find("dies", "the end", func(d *allocation) bool { return d.ClientStatus == "failed" })
			if d.event("Terminated", "exit code 4") == "" {
				t.Errorf("events %+v", d.TaskStates["t"].Events)
			}
			for _, path := range filling {
				_ = os.Remove(path) // the last one may not be there
			}
			h.find("late", "the start", running)
			for _, job := range []string{"before", "late"} {
				h.stop(job)
			}
			h.eventually("the end of all executors", func() bool {
				left, _ := filepath.Glob(runtime + "/*/*")
				return len(left) == 0
			})
		})
	}
}

// TestAgentElsewhere starts the agent anew where the processes of its tasks cannot be told: it neither ends nor repeats
// them, says where they are, and has them again once it is back.
func TestAgentElsewhere(t *testing.T) {
	for _, e := range rig.Elsewheres(t) {
		if e.Where == "not visible from here" {
			continue // it starts no task with that /proc, and says so
		}
		t.Run(e.Name, func(t *testing.T) {
			h := hostWithAgent(t, "")
			id := h.running(shellJob("steady", "service", "", 32, steady))
			h.eventually("the task", func() bool { return h.has(id, "beats") })
			h.end(syscall.SIGKILL)
			h.wrap = e.Wrap
			h.begin()
			h.eventually("an event", func() bool {
				text, err := os.ReadFile(h.log.Name())
				return err == nil && strings.Contains(string(text), "cannot be reached yet") && strings.Contains(string(text), e.Where)
			})
			beats := len(h.lines(id, "beats"))
			h.eventually("the task runs on", func() bool { return len(h.lines(id, "beats")) > beats+5 })
			h.end(syscall.SIGKILL)
			h.eventually("the end of the agent", func() bool {
				_, err := h.call(http.MethodGet, "/v1/agent/health", nil)
				return err != nil
			})
			h.wrap = nil
			h.begin()
			if a := h.allocations(); len(a) != 1 || a[0].ID != id || a[0].ClientStatus != "running" || a[0].TaskStates["t"].Restarts > 0 {
				t.Errorf("afterwards: %+v", a)
			}
			if h.has(id, "doubled") {
				t.Error("the task ran twice at a time")
			}
			h.stop("steady")
			h.eventually("the end of all processes", func() bool { return len(h.processes()) == 0 })
		})
	}
}
