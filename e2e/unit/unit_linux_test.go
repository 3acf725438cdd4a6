// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package unit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

const dataDir = "/var/lib/tacho"

const job = `
job %[1]q {
  type = %[2]q
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "tacho"
      config {
        command = %[3]q
      }
      env {
        E2E_UNIT_TASK = %[1]q
      }
      resources {
        memory = 48
      }
    }
  }
}
`

// call asks the agent over its socket.
func call(ctx context.Context, method, path string, body, into any) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       testkit.DialUnix(filepath.Join(dataDir, "tacho.sock")),
	}}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, content)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(content, into)
}

type allocation struct {
	ID, ClientStatus string
	TaskStates       map[string]struct {
		Restarts int
		Events   []struct{ Type, DisplayMessage string }
	}
}

// witness is a running task that tells whether it lives on.
type witness struct {
	*machine
	id string
}

// run runs a job and returns its allocation's id.
func (m *machine) run(name, jobType string) (id string) {
	m.t.Helper()
	source := map[string]any{"Source": fmt.Sprintf(job, name, jobType, self(m.t)), "Filename": "test.nomad.hcl"}
	testkit.Must(m.t, call(m.t.Context(), http.MethodPost, "/v1/jobs", source, nil))
	var all []allocation
	if err := call(m.t.Context(), http.MethodGet, "/v1/job/"+name+"/allocations", nil, &all); err != nil || len(all) != 1 {
		m.t.Fatal(all, err)
	}
	return all[0].ID
}

func (m *machine) allocation(id string) (a allocation, err error) {
	err = call(m.t.Context(), http.MethodGet, "/v1/allocation/"+id, nil, &a)
	return a, err
}

func (w *witness) lines(name string) []string {
	text, err := os.ReadFile(filepath.Join(dataDir, "alloc", w.id, "alloc/data", name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// livesOn fails where the task is not the process that it was, or the agent does not know it any more.
func (w *witness) livesOn(after string) {
	w.t.Helper()
	before := len(w.lines("beats"))
	w.eventually("the next beat after "+after, func() bool { return len(w.lines("beats")) > before+1 })
	w.eventually("the running task after "+after, func() bool {
		a, err := w.allocation(w.id)
		return err == nil && a.ClientStatus == "running"
	})
	a, err := w.allocation(w.id)
	starts := w.lines("starts")
	if err != nil || len(starts) != 1 || len(slices.Compact(w.lines("beats"))) != 1 || a.TaskStates["t"].Restarts != 0 {
		w.t.Fatalf("after %s: processes %v, allocation %+v, %v", after, starts, a, err)
	}
}

// another waits for the unit to be active with another main process.
func (m *machine) another(pid, after string) (now string) {
	m.t.Helper()
	m.eventually("another agent after "+after, func() bool {
		now = m.mainPID()
		return now != pid && now != "0" && m.property("ActiveState") == "active"
	})
	return now
}

// TestUnit does to the packaged unit what operators and accidents do. Nothing of it reaches a task.
func TestUnit(t *testing.T) {
	m := boot(t)
	// It is done when the agent has said that it is ready: Type=notify.
	m.do("start", m.StartUnitContext)
	pid := m.mainPID()
	if state := m.property("ActiveState"); state != "active" || pid == "0" {
		t.Fatalf("the unit is %s, its process %s", state, pid)
	}
	w := &witness{machine: m, id: m.run("beat", "service")}
	w.livesOn("the start")
	m.watched()

	m.do("reload", m.ReloadUnitContext)
	w.livesOn("a reload")
	if now := m.mainPID(); now != pid {
		t.Errorf("after a reload the agent is process %s, was %s", now, pid)
	}

	m.do("restart", m.RestartUnitContext)
	pid = m.another(pid, "a restart")
	w.livesOn("a restart")

	m.do("stop", m.StopUnitContext)
	before := len(w.lines("beats"))
	m.eventually("a beat without the agent", func() bool { return len(w.lines("beats")) > before+2 })
	m.do("start", m.StartUnitContext)
	pid = m.another(pid, "a stop")
	w.livesOn("a stop and a start")

	m.signal(syscall.SIGKILL)
	pid = m.another(pid, "a kill")
	w.livesOn("a kill of the agent")

	// It answers nobody and says nothing: the watchdog's time runs out.
	m.signal(syscall.SIGSTOP)
	pid = m.another(pid, "a hang")
	w.livesOn("a hang of the agent")
	if restarts := m.property("NRestarts"); restarts != "2" {
		t.Errorf("%s restarts, want one for the kill and one for the hang", restarts)
	}
	greedy := m.run("greedy", "batch")
	m.eventually("the end of the greedy task", func() bool {
		a, err := m.allocation(greedy)
		return err == nil && a.ClientStatus == "failed"
	})
	if a, err := m.allocation(greedy); err != nil || !strings.Contains(fmt.Sprint(a.TaskStates["t"].Events), "OOM") {
		t.Errorf("the greedy task did not end for want of memory: %+v, %v", a, err)
	}
	w.livesOn("another's want of memory")
	if state, now := m.property("ActiveState"), m.mainPID(); state != "active" || now != pid {
		t.Errorf("after a task's want of memory the unit is %s, its process %s, was %s", state, now, pid)
	}

	testkit.Must(t, call(t.Context(), http.MethodDelete, "/v1/job/beat", nil, nil))
	m.eventually("the end of the task", func() bool {
		a, err := m.allocation(w.id)
		return err == nil && a.ClientStatus == "complete"
	})
	m.do("stop", m.StopUnitContext)
}

// watched holds that the unit that the agent watches, which is its own, has the CPU time that systemd tells, and that
// tacho watch finds it.
func (m *machine) watched() {
	m.t.Helper()
	m.eventually("systemd and the watch tell the same", func() bool {
		var all []struct {
			ID         string
			TaskStates map[string]struct {
				Tacho struct{ Labels map[string]string }
			}
		}
		testkit.Must(m.t, call(m.t.Context(), http.MethodGet, "/v1/allocations", nil, &all))
		for _, a := range all {
			if a.TaskStates[service].Tacho.Labels["unit"] != service {
				continue
			}
			var stats struct {
				Tacho struct {
					Tasks map[string]struct {
						Sample *struct{ Measurements map[string]any }
					}
				}
			}
			testkit.Must(m.t, call(m.t.Context(), http.MethodGet, "/v1/client/allocation/"+a.ID+"/stats", nil, &stats))
			if sample := stats.Tacho.Tasks[service].Sample; sample != nil {
				ours, _ := sample.Measurements["cgroup_cpu_usage_seconds_total"].(float64)
				theirs := testkit.Value(strconv.ParseFloat(m.property("CPUUsageNSec"), 64))(m.t) / 1e9
				return ours > 0 && ours <= theirs && ours > theirs-1
			}
		}
		return false
	})
	place := rig.NewPlace(m.t, rig.Self())
	place.Parallel = true // the agent runs on
	out := rig.Capture(m.t, place.Command(m.t.Context(), rig.Tacho(), "watch", "--unit", service, "--timeout", "1s"))
	if out.Code != 0 || !strings.Contains(out.Stderr, "Watched until its time was up") {
		m.t.Errorf("tacho watch: exit code %d: %s", out.Code, out.Stderr)
	}
}

// signal sends a signal to the agent only.
func (m *machine) signal(s syscall.Signal) {
	m.t.Helper()
	testkit.Must(m.t, m.KillUnitWithTarget(m.t.Context(), service, "main", int32(s)))
}
