// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package rig

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/internal/testkit"
)

// consolePatience is how long anything may take that is expected to happen at all.
const consolePatience = time.Minute

// Console is a command at a terminal, with somebody who types and reads.
type Console struct {
	// Terminal is the terminal's other end.
	Terminal *os.File

	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
	// read is how much of the screen the test has gone past.
	read int
}

// OpenConsole starts a command as the leader of a session on a new terminal of 30 rows and 100 columns.
func OpenConsole(t testing.TB, cmd *exec.Cmd) *Console {
	t.Helper()
	started := testkit.Value(pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100}))(t)
	ptm := closable(t, started)
	c := &Console{cmd: cmd, Terminal: ptm, ended: make(chan struct{})}
	shown := make(chan struct{})
	go c.show(shown)
	go func() {
		defer close(c.ended)
		// How it ended is in cmd.ProcessState.
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows, behind what was expected:\n%q", c.Text()[c.read:])
		}
		_ = cmd.Process.Kill()
		<-c.ended
		ptm.Close()
		<-shown
	})
	return c
}

// closable returns the same terminal as a file whose Close does not wait for a Read.
func closable(t testing.TB, ptm *os.File) *os.File {
	t.Helper()
	defer ptm.Close()
	fd := testkit.Value(unix.FcntlInt(ptm.Fd(), unix.F_DUPFD_CLOEXEC, 0))(t)
	testkit.Must(t, unix.SetNonblock(fd, true))
	return os.NewFile(uintptr(fd), ptm.Name())
}

// show keeps what the terminal shows, until nobody has it open any more.
func (c *Console) show(shown chan<- struct{}) {
	defer close(shown)
	block := make([]byte, 4096)
	for {
		n, err := c.Terminal.Read(block)
		c.mu.Lock()
		c.screen.Write(block[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Text is everything that the terminal has shown.
func (c *Console) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.screen.String()
}

// Expect waits until the terminal shows texts one after the other, behind what was expected before.
func (c *Console) Expect(t testing.TB, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		Eventually(t, consolePatience, fmt.Sprintf("the terminal shows %q", want), func() bool {
			shown := c.Text()[c.read:]
			at := strings.Index(shown, want)
			if at >= 0 {
				c.read += at + len(want)
			}
			return at >= 0
		})
	}
}

// Enter types something.
func (c *Console) Enter(t testing.TB, text string) {
	t.Helper()
	if _, err := c.Terminal.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// Wait waits for the end of the command and returns its exit code.
func (c *Console) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(consolePatience):
		t.Fatalf("%s: still running after %s; the terminal shows\n%q", c.cmd, consolePatience, c.Text())
	}
	return Code(c.cmd.ProcessState)
}

// Exits waits for the end of the command, and holds its exit code.
func (c *Console) Exits(t testing.TB, want int) {
	t.Helper()
	testkit.Equal(t, c.Wait(t), want, "exit code")
}
