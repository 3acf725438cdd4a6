// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// jobs are a task that goes on and one that needs more than it may have.
const jobs = `
job "seen" {
  group "busy" {
    task "counter" {
      driver = "tacho"
      config {
        command = "/bin/sh"
        args    = ["-c", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo s3cret; sleep 0.1; done"]
      }
      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
  group "greedy" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "eater" {
      driver = "tacho"
      config {
        command = "/bin/sh"
        args    = ["-c", "sleep 2; x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 5"]
      }
      resources {
        cpu    = 200
        memory = 32
      }
    }
  }
}
`

// realAgent is an agent as users start it.
type realAgent struct {
	cmd    *exec.Cmd
	dir    string
	port   int
	socket *http.Client
}

func startAgent(t *testing.T) *realAgent {
	t.Helper()
	listener := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	// A short path: there are sockets below it.
	dir := testkit.Value(os.MkdirTemp("", "seen"))(t)
	a := &realAgent{dir: dir, port: listener.Addr().(*net.TCPAddr).Port}
	listener.Close()
	a.configure(t, true)
	job := filepath.Join(dir, "seen.nomad.hcl")
	testkit.Must(t, os.WriteFile(job, []byte(jobs), 0o600))
	a.cmd = exec.Command(rig.Tacho(), "agent", "--config", filepath.Join(dir, "agent.hcl"), "--data-dir",
		filepath.Join(dir, "data"), "--job", job)
	var log strings.Builder
	a.cmd.Stderr = &log
	stdout := testkit.Value(a.cmd.StdoutPipe())(t)
	testkit.Must(t, a.cmd.Start())
	socket := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if path, ok := strings.CutPrefix(lines.Text(), "socket"); ok {
				socket <- strings.TrimSpace(path)
			}
		}
	})
	t.Cleanup(func() { a.end(t, &reading, &log) })
	select {
	case path := <-socket:
		a.socket = &http.Client{Timeout: patience, Transport: &http.Transport{
			DialContext: testkit.DialUnix(path),
		}}
	case <-time.After(patience):
		t.Fatal("the agent does not say where its socket is")
	}
	return a
}

// end stops the tasks and then the agent: tasks outlive agents.
func (a *realAgent) end(t *testing.T, reading *sync.WaitGroup, log *strings.Builder) {
	if a.socket != nil {
		a.ask(t, http.MethodDelete, "/v1/job/seen?purge=true")
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if !strings.Contains(a.ask(t, http.MethodGet, "/v1/allocations"), `"ClientStatus":"running"`) {
				break
			}
		}
	}
	testkit.NoError(t, a.cmd.Process.Signal(syscall.SIGTERM))
	reading.Wait()
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if t.Failed() {
		t.Logf("the agent said:\n%s", log.String())
	}
	testkit.NoError(t, os.RemoveAll(a.dir))
}

// ask asks the API over the unix socket.
func (a *realAgent) ask(t *testing.T, method, path string) string {
	r := testkit.Value(http.NewRequestWithContext(context.Background(), method, "http://localhost"+path, nil))(t)
	response := testkit.Value(a.socket.Do(r))(t) //nolint:bodyclose // the next line does
	defer response.Body.Close()
	return string(testkit.Value(io.ReadAll(response.Body))(t))
}

// configure writes the configuration and has a running agent read it.
func (a *realAgent) configure(t *testing.T, publish bool) {
	t.Helper()
	text := fmt.Sprintf("ports { http = %d }\ntelemetry { publish_allocation_metrics = %v }\n", a.port, publish)
	testkit.Must(t, os.WriteFile(filepath.Join(a.dir, "agent.hcl"), []byte(text), 0o600))
	if a.cmd != nil {
		testkit.Must(t, a.cmd.Process.Signal(syscall.SIGHUP))
	}
}

// TestRealAgent looks at the page of an agent that runs tasks.
func TestRealAgent(t *testing.T) {
	rig.Require(t)
	tab := startBrowser(t).open(t)
	a := startAgent(t)
	site := fmt.Sprintf("http://127.0.0.1:%d", a.port)
	tab.visit(t, site+"/")
	const cell = `document.querySelector('[data-live$="counter cpu"]')`

	t.Run("a value changes by itself", func(t *testing.T) {
		tab.waitFor(t, `/\d/.test(`+cell+`?.innerText)`)
		before := evaluate[string](t, tab, cell+".innerHTML")
		tab.waitFor(t, cell+".innerHTML !== "+quote(before))
	})
	t.Run("a task that ends is told of", func(t *testing.T) {
		tab.waitFor(t, `document.querySelector('table.ended')?.innerText.includes('eater')`)
		why := evaluate[string](t, tab, `document.querySelector('table.ended').innerText`)
		if !strings.Contains(why, "oom-killed") || !strings.Contains(why, "out of memory (limit 32 MiB") {
			t.Errorf("the page says of the task that was killed: %s", why)
		}
		t.Logf("the page says:\n%s", why)
	})
	t.Run("publishing off and on leaves a gap", func(t *testing.T) {
		a.configure(t, false)
		tab.waitFor(t, `document.getElementById('notice') !== null`)
		tab.waitFor(t, cell+`.innerText.includes('–')`)
		a.configure(t, true)
		tab.waitFor(t, `document.getElementById('notice') === null`)
		tab.waitFor(t, `/\d/.test(`+cell+`.innerText)`)
		path := evaluate[string](t, tab, `document.querySelector('a.task[href$="/counter"]').getAttribute('href')`)
		tab.visit(t, site+path)
		tab.waitFor(t, `document.querySelector('.happened')?.innerText.includes('publishing was off')`)
		tab.waitFor(t, `document.querySelector('[data-live="chart-cpu"] .gap') !== null`)
	})
	t.Run("the processes add up", func(t *testing.T) {
		tab.waitFor(t, `document.body.innerText.includes('add up to the total')`)
	})
	t.Run("commands and output stay secret", func(t *testing.T) {
		tab.waitFor(t, `!document.documentElement.innerHTML.includes('s3cret')`)
		if !strings.Contains(a.ask(t, http.MethodGet, evaluate[string](t, tab, "location.pathname")), "s3cret") {
			t.Error("the unix socket does not show what the task wrote")
		}
	})
	t.Run("the page to sign in names a command that does", func(t *testing.T) {
		tab.visit(t, site+"/sign-in")
		command := strings.Fields(evaluate[string](t, tab, "document.querySelector('pre').textContent"))
		link := testkit.Value(exec.Command(rig.Tacho(), command[1:]...).Output())(t)
		tab.call(t, "Page.navigate", object{"url": strings.TrimSpace(string(link))})
		tab.waitFor(t, `document.body.innerText.includes('Sign out')`)
	})
	tab.visit(t, "about:blank")
}
