// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// patience is how long anything may take that is expected to happen at all.
const patience = 30 * time.Second

// host is a data folder with the agents that run in it one after the other.
type host struct {
	t      *testing.T
	binary string
	wrap   []string // before the binary
	dir    string
	config string
	http   *http.Client
	cmd    *exec.Cmd
	log    *os.File
	ended  chan error
}

// newHost makes a data folder and a configuration, with more lines for it.
func newHost(t *testing.T, more string) *host {
	t.Helper()
	rig.Require(t)
	// Short: the path of a unix socket is limited to 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "agent")
	testkit.Must(t, err)
	h := &host{t: t, binary: rig.Tacho(), dir: dir, config: filepath.Join(dir, "config.hcl")}
	if h.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	h.configure(more)
	h.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       testkit.DialUnix(h.socket()),
	}}
	t.Cleanup(h.clean)
	return h
}

func (h *host) configure(more string) {
	h.t.Helper()
	text := fmt.Sprintf("data_dir = %q\nlog_level = \"debug\"\nports {\n  http = -1\n}\n%s\n", h.data(), more)
	testkit.Must(h.t, os.WriteFile(h.config, []byte(text), 0o600))
}

const publishing = "telemetry {\n  publish_allocation_metrics = true\n  prometheus_metrics = true\n  collection_interval = \"200ms\"\n}\n"

func (h *host) data() string   { return filepath.Join(h.dir, "data") }
func (h *host) socket() string { return filepath.Join(h.data(), "tacho.sock") }

// clean ends the agent and whatever tasks are left, and is loud where something was.
func (h *host) clean() {
	if h.cmd != nil {
		// Where the test went wrong its jobs are still there.
		for _, a := range h.allocations() {
			if _, err := h.call(http.MethodDelete, "/v1/job/"+a.JobID, nil); err != nil {
				h.t.Log(err)
			}
		}
		h.eventually("the end of all tasks", func() bool { return len(h.processes()) == 0 })
		h.end(syscall.SIGTERM)
	}
	for _, pid := range h.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // of a process that ends: none
		h.t.Errorf("process %d of the test is still there: %q", pid, line)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	h.showLog()
	h.log.Close()
	testkit.NoError(h.t, os.RemoveAll(h.dir))
}

// showLog logs what the agents have logged, if the test has failed.
func (h *host) showLog() {
	if h.t.Failed() {
		text, err := os.ReadFile(h.log.Name())
		h.t.Logf("the agents' log (%v), its end:\n%s", err, text[max(0, len(text)-8000):])
	}
}

// processes lists those that have this data folder in their environment or command line: executors and tasks.
func (h *host) processes() []int { return processesWith(h.t, h.data()) }

// processesWith lists the processes that have a text in their environment or command line.
func processesWith(t *testing.T, text string) (pids []int) {
	t.Helper()
	folders := testkit.Value(filepath.Glob("/proc/[0-9]*"))(t)
	for _, folder := range folders {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(folder), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(folder, "environ")) // of a process that ends: none
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		if len(line) > 0 && bytes.Contains(slices.Concat(environment, line), []byte(text)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// launch starts an agent and does not wait for it.
func (h *host) launch() {
	h.t.Helper()
	words := slices.Concat(h.wrap, []string{h.binary, "agent", "-config", h.config})
	h.cmd = exec.Command(words[0], words[1:]...)
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	testkit.Must(h.t, h.cmd.Start())
	h.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(h.cmd, h.ended)
}

// begin starts an agent and waits until it answers.
func (h *host) begin() {
	h.t.Helper()
	h.launch()
	h.awaitAnswer()
}

// hostWithAgent makes a host whose agent answers.
func hostWithAgent(t *testing.T, more string) *host {
	t.Helper()
	h := newHost(t, more)
	h.begin()
	return h
}

// awaitAnswer waits until the agent answers.
func (h *host) awaitAnswer() {
	h.t.Helper()
	h.eventually("an answer of the agent", func() bool {
		select {
		case err := <-h.ended:
			h.t.Fatalf("the agent has ended: %v", err)
		default:
		}
		_, err := h.call(http.MethodGet, "/v1/agent/health", nil)
		return err == nil
	})
}

// end ends the agent by a signal.
func (h *host) end(signal syscall.Signal) {
	h.t.Helper()
	if err := h.cmd.Process.Signal(signal); err != nil {
		h.t.Errorf("signal agent: %v", err)
	}
	select {
	case err := <-h.ended:
		if err != nil && signal != syscall.SIGKILL {
			h.t.Errorf("the agent ended: %v", err)
		}
	case <-time.After(patience):
		h.t.Error("the agent does not end")
		h.t.Log(h.cmd.Process.Kill(), <-h.ended)
	}
	h.cmd = nil
}

// call makes a request and returns its body.
func (h *host) call(method, path string, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, "http://agent"+path, content)
	if err != nil {
		return nil, err
	}
	response, err := h.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	}
	return text, err
}

// get reads an answer into a value.
func (h *host) get(path string, into any) {
	h.t.Helper()
	text := testkit.Value(h.call(http.MethodGet, path, nil))(h.t)
	if err := json.Unmarshal(text, into); err != nil {
		h.t.Fatalf("%s: %v: %s", path, err, text)
	}
}

// shellJob returns a job with a group g, lines for it, and a task t that runs a script.
func shellJob(name, kind, group string, memoryMiB int, script string) string {
	return fmt.Sprintf(`
job %q {
  type = %q
  group "g" {
    %s
    task "t" {
      driver       = "tacho"
      kill_timeout = "5s"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        memory = %d
      }
    }
  }
}
`, name, kind, group, script, memoryMiB)
}

// noRestart is a policy.
const noRestart = "restart {\n attempts = 0\n mode = \"fail\"\n}"

// run runs a job.
func (h *host) run(text string) {
	h.t.Helper()
	if _, err := h.call(http.MethodPost, "/v1/jobs", map[string]any{"Source": text, "Filename": "test.nomad.hcl"}); err != nil {
		h.t.Fatal(err)
	}
}

// stop stops a job.
func (h *host) stop(job string) {
	h.t.Helper()
	_, err := h.call(http.MethodDelete, "/v1/job/"+job, nil)
	testkit.Must(h.t, err)
}

// allocation is what these tests look at.
type allocation struct {
	ID, Name, JobID, ClientStatus, TaskGroup, ClientDescription string
	TaskStates                                                  map[string]struct {
		State      string
		Failed     bool
		Restarts   int
		FinishedAt time.Time
		Events     []struct {
			Type, DisplayMessage string
			Details              map[string]string
		}
	}
}

func (h *host) allocations() []allocation {
	h.t.Helper()
	var all []allocation
	h.get("/v1/allocations", &all)
	return all
}

// eventually polls: what is waited for happens in another process.
func (h *host) eventually(what string, is func() bool) {
	h.t.Helper()
	within := patience
	if os.Getenv("TACHO_GUEST") != "" { // an emulator is slow
		within *= 6
	}
	rig.Poll(h.t, 25*time.Millisecond, within, what, is)
}

// lines reads a file of an allocation's shared folder; none where it is not there.
func (h *host) lines(allocID, name string) []string {
	text, err := os.ReadFile(filepath.Join(h.data(), "alloc", allocID, "alloc", "data", name))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}
