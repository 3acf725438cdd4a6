// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/client"
	"github.com/tachograph/tacho/internal/testkit"
)

// shortDir makes a directory of a short path: that of a unix socket is limited to 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tacho")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// until waits until a file has a text.
func until(t *testing.T, path, text string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, []byte(text)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no %q, %v:\n%s", path, text, err, content)
		}
	}
}

// agentIn is tacho agent with a configuration; what it says goes to a file, which is made anew.
func agentIn(t *testing.T, log, config string, args ...string) *exec.Cmd {
	t.Helper()
	file := testkit.Value(os.Create(log))(t)
	defer file.Close()
	cmd := tachoProcess(t, append([]string{"agent", "--config", config}, args...)...)
	cmd.Stderr = file
	must(t, cmd.Start())
	return cmd
}

// terminate ends an agent by SIGTERM, and returns how long that took.
func terminate(t *testing.T, agent *exec.Cmd) time.Duration {
	t.Helper()
	began := time.Now()
	must(t, agent.Process.Signal(unix.SIGTERM))
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	return time.Since(began)
}

// awaitLock waits until a process has locked a file.
func awaitLock(t *testing.T, path string) {
	t.Helper()
	file := testkit.Value(os.Open(path))(t)
	defer file.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s is not locked, %v", path, err)
		}
		must(t, unix.Flock(int(file.Fd()), unix.LOCK_UN))
	}
}

// TestAgentEndsBeforeItIsReady holds that an agent that is still recovering a task, whose executor does not answer, ends when
// it is told to, and leaves the task for the next agent.
func TestAgentEndsBeforeItIsReady(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	log, started := in("log"), in("started")
	job := fmt.Sprintf("job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"tacho\"\n config {\n command = \"/bin/sh\"\n"+
		" args = [\"-c\", \"echo $$ >> %s; exec sleep 1000\"]\n }\n }\n }\n}\n", started)
	config := fmt.Sprintf("data_dir = %q\nports {\n http = -1\n}\nplugin \"tacho\" {\n config {\n enforce = false\n }\n}\n", in("data"))
	for name, text := range map[string]string{"config.hcl": config, "job.hcl": job} {
		must(t, os.WriteFile(in(name), []byte(text), 0o600))
	}

	agent := agentIn(t, log, in("config.hcl"), "--job", in("job.hcl"))
	until(t, started, "\n")
	until(t, log, "task started")
	terminate(t, agent)

	executors, err := client.List(in("data/run"))
	if err != nil || len(executors) != 1 {
		t.Fatalf("executors %v, %v; want one", executors, err)
	}
	executor := executors[0].Executor.PID
	must(t, unix.Kill(executor, unix.SIGSTOP))
	agent = agentIn(t, log, in("config.hcl"))
	awaitLock(t, in("data/state.db"))
	if took := terminate(t, agent); took > patience {
		t.Errorf("it took %s to end", took)
	}
	if said, err := os.ReadFile(log); err != nil || strings.Contains(string(said), "agent is ready") {
		t.Errorf("it was ready before it ended, %v:\n%s", err, said)
	}

	must(t, unix.Kill(executor, unix.SIGCONT))
	pid := testkit.Value(os.ReadFile(started))(t)
	proc := filepath.Join("/proc", strings.TrimSpace(string(pid)))
	if _, err := os.Stat(proc); err != nil {
		t.Errorf("the task of the agent before: %v", err)
	}
	agent = agentIn(t, log, in("config.hcl"), "--dev", "--data-dir", in("data")) // ends its tasks
	until(t, log, "agent is ready")
	terminate(t, agent)
	if _, err := os.Stat(proc); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the task was not taken up again: %v", err)
	}
	if again, err := os.ReadFile(started); err != nil || !bytes.Equal(again, pid) {
		t.Errorf("started as %q, %v, and before as %q", again, err, pid)
	}
}
