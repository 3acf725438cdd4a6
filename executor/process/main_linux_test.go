// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// roleVariable makes the test binary one of the processes that the tests look at.
const roleVariable = "TEST_PROCESS_ROLE"

// soon is how long anything may take that happens at once.
const soon = 10 * time.Second

// TestMain lets the test binary be another process.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

// play is what a helper process does. A list of roles is a process of the first one whose child has the others.
func play(roles string) int {
	role, rest, _ := strings.Cut(roles, ",")
	switch role {
	case "kills":
		return playKiller(rest)
	case "leaderless":
		return playLeaderless()
	case "session":
		if _, err := unix.Setsid(); err != nil {
			return 1
		}
	case "execs":
		env := []string{roleVariable + "=plain," + rest, "GORACE=atexit_sleep_ms=0"}
		fmt.Fprintln(os.Stderr, unix.Exec("/proc/self/exe", []string{"exec"}, env))
		return 1
	}
	if rest != "" {
		cmd := helper(rest)
		cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
		if err := cmd.Start(); err != nil {
			return 1
		}
		if strings.HasPrefix(rest, "orphans") {
			_ = cmd.Wait() // it has made its child an orphan
		}
	}
	if role == "orphans" {
		return 0
	}
	fmt.Println(os.Getpid())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test is over
	return 0
}

// playKiller starts what roles say, kills it and what it left when asked to, and reports whether it has no child any
// more.
func playKiller(roles string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 2
	}
	cmd := helper(roles)
	hold, err := cmd.StdinPipe() // so that they do not end by themselves
	if err != nil {
		return 2
	}
	defer hold.Close()
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		return 2
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := KillChildren(ctx, kernel.HostFS()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		return 3
	}
	return 0
}

// playLeaderless ends the first thread, which the state of a process is that of, and goes on in another one.
func playLeaderless() int {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		fmt.Fprintln(os.Stderr, "the main goroutine has left the first thread")
		return 1
	}
	go func() {
		for text := []byte(nil); !bytes.Contains(text, []byte(") Z ")); {
			text, _ = os.ReadFile("/proc/self/stat")
		}
		fmt.Println(os.Getpid())
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test is over
		os.Exit(0)
	}()
	_, _, err := unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func helper(roles string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{roleVariable + "=" + roles, "GORACE=atexit_sleep_ms=0"}
	cmd.Stderr = os.Stderr
	return cmd
}

// family is a helper process and those below it.
type family struct {
	*exec.Cmd
	t    *testing.T
	hold io.Closer // by which all of them end
	// ids are the processes that stay, in the order in which they said that they run.
	ids []procstats.ProcessID
}

// start starts the processes of some roles and waits until n of them run. All of them end with the test.
func start(t *testing.T, roles string, n int, change ...func(*exec.Cmd)) *family {
	t.Helper()
	f := &family{Cmd: helper(roles), t: t}
	for _, change := range change {
		change(f.Cmd)
	}
	stdin, hold, err := os.Pipe()
	must(t, err)
	defer stdin.Close()
	f.Stdin, f.hold = stdin, hold
	out := testkit.Value(f.StdoutPipe())(t)
	must(t, f.Start())
	lines := bufio.NewReader(out)
	for range n {
		line := testkit.Value(lines.ReadString('\n'))(t)
		pid := testkit.Value(strconv.Atoi(strings.TrimSpace(line)))(t)
		f.ids = append(f.ids, identify(t, pid))
	}
	t.Cleanup(func() {
		_ = hold.Close()
		f.await("the end of all", func() bool { return len(f.alive()) == 0 })
		f.reap()
	})
	return f
}

// reap waits for the first process, whatever has ended it, unless that was done.
func (f *family) reap() {
	f.t.Helper()
	_ = f.Wait() // it was signalled, or waited for
}

// alive are the processes that run.
func (f *family) alive() (alive []procstats.ProcessID) {
	for _, id := range f.ids {
		if kernel.Alive(kernel.HostFS(), id) {
			alive = append(alive, id)
		}
	}
	return alive
}

// await waits for what nothing tells of.
func (f *family) await(what string, ok func() bool) {
	f.t.Helper()
	for began := time.Now(); !ok(); <-time.After(time.Millisecond) {
		if time.Since(began) > soon {
			f.t.Fatalf("no %s after %s", what, soon)
		}
	}
}

func identify(t *testing.T, pid int) procstats.ProcessID {
	t.Helper()
	now := testkit.Value(kernel.Identify(kernel.HostFS(), pid))(t)
	return now.ProcessID
}

// ownGroup puts a command into a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
