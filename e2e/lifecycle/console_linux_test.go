// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package lifecycle

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/e2e/rig"
)

// console is a command at a terminal, with somebody who types and reads.
type console struct {
	cmd   *exec.Cmd
	ptm   *os.File
	ended chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
	// read is how much of the screen the test has gone past.
	read int
}

// open starts a command as the leader of a session on a new terminal of 30 rows and 100 columns.
func open(t *testing.T, cmd *exec.Cmd) *console {
	t.Helper()
	started, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	rig.Must(t, err)
	ptm := closable(t, started)
	c := &console{cmd: cmd, ptm: ptm, ended: make(chan struct{})}
	shown := make(chan struct{})
	go c.show(shown)
	go func() {
		defer close(c.ended)
		// How it ended is in cmd.ProcessState.
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.ended
		ptm.Close()
		<-shown
	})
	return c
}

// closable returns the same terminal as a file whose Close does not wait for a Read.
func closable(t *testing.T, ptm *os.File) *os.File {
	t.Helper()
	defer ptm.Close()
	fd, err := unix.FcntlInt(ptm.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	rig.Must(t, err)
	rig.Must(t, unix.SetNonblock(fd, true))
	return os.NewFile(uintptr(fd), ptm.Name())
}

// show keeps what the terminal shows, until nobody has it open any more.
func (c *console) show(shown chan<- struct{}) {
	defer close(shown)
	block := make([]byte, 4096)
	for {
		n, err := c.ptm.Read(block)
		c.mu.Lock()
		c.screen.Write(block[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text is everything that the terminal has shown.
func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.screen.String()
}

// expect waits until the terminal shows texts one after the other, behind what was expected before.
func (c *console) expect(t *testing.T, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		c.expectOne(t, want)
	}
}

func (c *console) expectOne(t *testing.T, want string) {
	t.Helper()
	late := time.After(deadline)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		at := strings.Index(c.text()[c.read:], want)
		if at >= 0 {
			c.read += at + len(want)
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the terminal does not show %q but\n%q", want, c.text()[c.read:])
		}
	}
}

// enter types something.
func (c *console) enter(t *testing.T, text string) {
	t.Helper()
	if _, err := c.ptm.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the end of the command and returns its exit code.
func (c *console) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(deadline):
		t.Fatalf("%s: still running after %s; the terminal shows\n%q", c.cmd, deadline, c.text())
	}
	return rig.Code(c.cmd.ProcessState)
}

// exits waits for the end of the command, and holds its exit code.
func (c *console) exits(t *testing.T, want int) {
	t.Helper()
	if code := c.wait(t); code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
}
