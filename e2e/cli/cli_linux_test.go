// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tachograph/tacho/e2e/rig"
	"github.com/tachograph/tacho/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// patience bounds the wait for what must happen.
const patience = time.Minute

// devAgent is a development agent with a directory of its own for temporary files and its socket.
type devAgent struct {
	temp string
	cmd  *exec.Cmd
}

// startAgent starts an agent, with more in its configuration, that ends, with all tasks, when done is called.
func startAgent(t testing.TB, more string) (a *devAgent, done func()) {
	t.Helper()
	temp, err := os.MkdirTemp("/tmp", "cli") // short: the path of a unix socket is limited to 107 bytes
	testkit.Must(t, err)
	a = &devAgent{temp: temp}
	config := filepath.Join(temp, "config.hcl")
	const text = "ports {\n  http = -1\n}\ntelemetry {\n  collection_interval = \"200ms\"\n}\n"
	testkit.Must(t, os.WriteFile(config, []byte(text+more), 0o600))
	log := testkit.Value(os.Create(filepath.Join(temp, "log")))(t)
	a.cmd = a.run("agent", "--dev", "--config", config)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	testkit.Must(t, a.cmd.Start())
	rig.Eventually(t, patience, "the agent answers", func() bool { return a.run("alloc", "status").Run() == nil })
	return a, func() {
		kill := time.AfterFunc(patience, func() { _ = a.cmd.Process.Kill() })
		defer kill.Stop()
		err := errors.Join(a.cmd.Process.Signal(syscall.SIGTERM), a.cmd.Wait(), log.Close())
		if err != nil {
			text, _ := os.ReadFile(log.Name()) // what there is of it
			t.Errorf("%v\n%s", err, text)
		}
		_ = os.RemoveAll(temp)
	}
}

// run is a command that finds the agent by itself.
func (a *devAgent) run(args ...string) *exec.Cmd {
	cmd := exec.Command(rig.Tacho(), args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+a.temp, "NO_COLOR=1")
	return cmd
}

// TestScripts runs each script against an agent of its own.
func TestScripts(t *testing.T) {
	rig.Require(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			a, done := startAgent(t, "")
			env.Defer(done)
			env.Setenv("TMPDIR", a.temp)
			env.Setenv("NO_COLOR", "1")
			env.Setenv("PATH", filepath.Dir(rig.Tacho())+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"eventually": eventually},
	})
}

// eventually runs a program again and again until its output has a text in it: eventually TEXT PROGRAM ARGS.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually TEXT PROGRAM [ARG...]")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if ts.Exec(args[1], args[2:]...) == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
	}
	ts.Fatalf("%q did not come; last:\n%s", args[0], ts.ReadFile("stdout"))
}

// TestTerminal watches a task and runs a shell beside it, as somebody at a terminal does.
func TestTerminal(t *testing.T) {
	rig.Require(t)
	a, done := startAgent(t, "")
	t.Cleanup(done)
	file := filepath.Join(a.temp, "job.nomad.hcl")
	job := `job "sleepy" {
  group "g" {
    task "main" {
      driver = "tacho"
      config {
        command = "sleep"
        args    = ["1000"]
      }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`
	testkit.Must(t, os.WriteFile(file, []byte(job), 0o600))
	if text, err := a.run("job", "run", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Run("top", func(t *testing.T) {
		c := rig.OpenConsole(t, a.run("top", "--delay", "300ms"))
		c.Expect(t, "sleepy.g[0]/main")
		c.Enter(t, "h")
		c.Expect(t, "sort by memory")
		c.Enter(t, "h\r")
		c.Expect(t, "unattributed")
		c.Enter(t, "\x1b")
		c.Expect(t, "PRESSURE")
		c.Enter(t, "/nothing")
		c.Expect(t, "no task matches the filter")
		c.Enter(t, "\x1b")
		c.Expect(t, "sleepy.g[0]/main")
		c.Enter(t, "q")
		c.Expect(t, "\x1b[?1049l") // back on the screen from before
		c.Exits(t, 0)
	})
	t.Run("exec", func(t *testing.T) {
		id := testkit.Value(a.run("alloc", "status", "-t", "{{(index . 0).ID}}").Output())(t)
		c := rig.OpenConsole(t, a.run("alloc", "exec", string(id[:8]), "sh"))
		c.Enter(t, "stty size; echo in:$NOMAD_TASK_NAME\n")
		c.Expect(t, "30 100")
		c.Expect(t, "in:main")
		testkit.Must(t, pty.Setsize(c.Terminal, &pty.Winsize{Rows: 30, Cols: 90}))
		// One command: between two the shell itself would get the signal, and go on with the second.
		c.Enter(t, "sh -c 'echo now; exec sleep 1000'\n")
		c.Expect(t, "now\r\n")
		c.Enter(t, "\x03") // for the command; the terminal drops what was typed before it
		c.Expect(t, "^C")
		c.Enter(t, "stty size; exit 9\n")
		c.Expect(t, "30 90")
		c.Exits(t, 9)
	})
}
