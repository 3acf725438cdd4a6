// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tachograph/tacho/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// patience bounds the wait for what must happen.
const patience = time.Minute

// devAgent is a development agent with a directory of its own for temporary files and its socket.
type devAgent struct {
	temp string
	cmd  *exec.Cmd
}

// startAgent starts an agent that ends, with all tasks, when done is called.
func startAgent(t testing.TB) (a *devAgent, done func()) {
	t.Helper()
	temp, err := os.MkdirTemp("/tmp", "cli") // short: the path of a unix socket is limited to 107 bytes
	rig.Must(t, err)
	a = &devAgent{temp: temp}
	config := filepath.Join(temp, "config.hcl")
	const text = "ports {\n  http = -1\n}\ntelemetry {\n  collection_interval = \"200ms\"\n}\n"
	rig.Must(t, os.WriteFile(config, []byte(text), 0o600))
	log, err := os.Create(filepath.Join(temp, "log"))
	rig.Must(t, err)
	a.cmd = a.run("agent", "--dev", "--config", config)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	rig.Must(t, a.cmd.Start())
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
			a, done := startAgent(t)
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

// screenText collects what a program writes to its terminal.
type screenText struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (s *screenText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take waits for a text, and drops everything up to it.
func (s *screenText) take(t *testing.T, want string) {
	t.Helper()
	rig.Eventually(t, patience, fmt.Sprintf("the terminal shows %q", want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := bytes.Index(s.text.Bytes(), []byte(want))
		if at >= 0 {
			s.text.Next(at + len(want))
		}
		return at >= 0
	})
}

// onTerminal starts a command on a terminal of its own.
func onTerminal(t *testing.T, cmd *exec.Cmd) (terminal *os.File, screen *screenText) {
	t.Helper()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	rig.Must(t, err)
	screen = &screenText{}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = terminal.WriteTo(screen) // EIO at the end
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // where it is still there
		<-copied
		terminal.Close()
	})
	return terminal, screen
}

func typeKeys(t *testing.T, terminal *os.File, keys string) {
	t.Helper()
	if _, err := terminal.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestTerminal watches a task and runs a shell beside it, as somebody at a terminal does.
func TestTerminal(t *testing.T) {
	rig.Require(t)
	a, done := startAgent(t)
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
	rig.Must(t, os.WriteFile(file, []byte(job), 0o600))
	if text, err := a.run("job", "run", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Run("top", func(t *testing.T) {
		cmd := a.run("top", "--delay", "300ms")
		terminal, screen := onTerminal(t, cmd)
		screen.take(t, "sleepy.g[0]/main")
		typeKeys(t, terminal, "h")
		screen.take(t, "sort by memory")
		typeKeys(t, terminal, "h\r")
		screen.take(t, "unattributed")
		typeKeys(t, terminal, "\x1b")
		screen.take(t, "PRESSURE")
		typeKeys(t, terminal, "/nothing")
		screen.take(t, "no task matches the filter")
		typeKeys(t, terminal, "\x1b")
		screen.take(t, "sleepy.g[0]/main")
		typeKeys(t, terminal, "q")
		screen.take(t, "\x1b[?1049l") // back on the screen from before
		rig.Check(t, cmd.Wait())
	})
	t.Run("exec", func(t *testing.T) {
		id, err := a.run("alloc", "status", "-t", "{{(index . 0).ID}}").Output()
		rig.Must(t, err)
		cmd := a.run("alloc", "exec", string(id[:8]), "sh")
		terminal, screen := onTerminal(t, cmd)
		typeKeys(t, terminal, "stty size; echo in:$NOMAD_TASK_NAME\n")
		screen.take(t, "24 120")
		screen.take(t, "in:main")
		rig.Must(t, pty.Setsize(terminal, &pty.Winsize{Rows: 30, Cols: 90}))
		// One command: between two the shell itself would get the signal, and go on with the second.
		typeKeys(t, terminal, "sh -c 'echo now; exec sleep 1000'\n")
		screen.take(t, "now\r\n")
		typeKeys(t, terminal, "\x03") // for the command; the terminal drops what was typed before it
		screen.take(t, "^C")
		typeKeys(t, terminal, "stty size; exit 9\n")
		screen.take(t, "30 90")
		exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
		if !ok || exit.ExitCode() != 9 {
			t.Errorf("%v, want exit code 9", exit)
		}
	})
}
