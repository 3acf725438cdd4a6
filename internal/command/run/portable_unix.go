// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix && (!linux || portable)

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats/source"
)

// group is the process group of a command. A process of our own leads it, the guard: it ends the group if this process
// is killed, and holds the group's number, so that a signal never meets another group.
type group struct {
	guard  *exec.Cmd
	leash  *os.File // the guard ends the group when the other end of this pipe is closed
	signal syscall.Signal
	// terminal is our controlling terminal if our group was in its foreground; else nil.
	terminal *os.File
	mu       sync.Mutex // held while the terminal is passed
	// seen has when each process of the newest sample was created.
	seen map[int]int64
}

// noEffect returns the flags that have none on this system.
func (o *runOptions) noEffect() []string { return nil }

// caught returns the signals that are forwarded.
func caught() []os.Signal { return append(forwarded(), unix.SIGCONT) }

const guardName = "guard"

// newGroup starts the guard of a new group.
func newGroup(o *runOptions) (*group, error) {
	g := &group{signal: parseSignal(o.killSignal), seen: map[int]int64{}}
	if g.signal == 0 {
		return nil, cli.Usagef("--kill-signal %s: must be a name such as TERM or a number from 1 to 31", o.killSignal)
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g.guard = exec.Command(path, guardName, strconv.Itoa(int(g.signal)), time.Duration(o.request.KillGraceNs).String())
	g.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := g.guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	ready, err := g.guard.StdoutPipe()
	if err != nil {
		return nil, err
	}
	g.leash = leash.(*os.File)
	if err := g.guard.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("start the guard: %w", errors.Join(err, g.close()))
	}
	return g, nil
}

// Guard leads the process group of a command until the process that started it is gone, and ends the group then. It
// reports whether this process was started as one.
func Guard(args []string) bool {
	if len(args) != 3 || args[0] != guardName || unix.Getpgrp() != os.Getpid() {
		return false
	}
	signal.Ignore() // all signals to the group are the command's
	number, _ := strconv.Atoi(args[1])
	grace, _ := time.ParseDuration(args[2])
	_, _ = os.Stdout.WriteString("\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = unix.Kill(0, unix.Signal(number))
	_ = unix.Kill(0, unix.SIGCONT)
	<-time.After(grace)
	_ = unix.Kill(0, unix.SIGKILL)
	return true
}

func (g *group) id() int { return g.guard.Process.Pid }

// start starts the command in the group.
func (g *group) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.id()}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return cmd.Start()
	}
	g.terminal = terminal
	// A pager behind a pipe is in our group, and needs the terminal as long as the command does not ask for it.
	if in, ok := cmd.Stdin.(*os.File); ok && g.foreground() == unix.Getpgrp() {
		cmd.SysProcAttr.Foreground = term.IsTerminal(int(in.Fd())) && term.IsTerminal(unix.Stdout)
		cmd.SysProcAttr.Ctty = int(terminal.Fd())
	}
	return cmd.Start()
}

// foreground returns the foreground process group of the terminal; 0 if there is none.
func (g *group) foreground() int {
	if g.terminal == nil {
		return 0
	}
	id, _ := unix.IoctlGetInt(int(g.terminal.Fd()), unix.TIOCGPGRP)
	return id
}

// passTerminal puts a process group in the foreground of the terminal in place of another. The kernel stops a process
// in the background that does so, unless it ignores SIGTTOU, which a command that is started must not.
func (g *group) passTerminal(from, to int) (passed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if from != g.foreground() {
		return false
	}
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	return unix.IoctlSetPointerInt(int(g.terminal.Fd()), unix.TIOCSPGRP, to) == nil
}

// wait waits for the end of the command.
func (g *group) wait(cmd *exec.Cmd) (e end) {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		_, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, &usage)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return end{err: err}
		case !status.Exited() && !status.Signaled():
			g.suspend(status.StopSignal())
			continue
		}
		e.used.Add(&usage)
		_ = cmd.Process.Release() // it was waited for
		g.passTerminal(g.id(), unix.Getpgrp())
		if e.code = status.ExitStatus(); status.Signaled() {
			e.code, e.signal = exitSignalBase+int(status.Signal()), recorded(status.Signal())
		}
		return e
	}
}

// suspend gives the command the terminal if it was stopped for not having it. If a key of the terminal has stopped it,
// or it runs in the background, our process group is stopped as well, as the shell expects of its job, and both are
// continued together.
func (g *group) suspend(by unix.Signal) {
	own, wants := unix.Getpgrp(), by == unix.SIGTTIN || by == unix.SIGTTOU
	switch {
	case g.terminal == nil:
		return
	case wants && (g.passTerminal(own, g.id()) || g.foreground() == g.id()): // or it was passed meanwhile
	case wants, g.passTerminal(g.id(), own):
		// The kernel discards the signal if the group is orphaned, without a shell that could continue it.
		bounded, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		stopSelf(bounded, 0, unix.SIGTSTP)
		cancel()
		g.passTerminal(own, g.id())
	default:
		return
	}
	_ = unix.Kill(-g.id(), unix.SIGCONT)
}

// members returns the processes of the group, but for the guard, when a sample begins.
func (g *group) members() (pids []int) {
	clear(g.seen)
	all, _ := process.Pids() // without a list, there are none to be stopped
	for _, pid := range all {
		if id, err := unix.Getpgid(int(pid)); err == nil && id == g.id() && int(pid) != id {
			pids = append(pids, int(pid))
		}
	}
	return pids
}

// totals returns nothing: there is no Job Object.
func (g *group) totals() (none source.JobTotals) { return none }

// forward sends the group a signal that this process has received, and returns its number in records.
func (g *group) forward(s os.Signal) (number int, closing string) {
	received, _ := s.(syscall.Signal)
	if received == unix.SIGCONT { // of the shell, which has put us in the foreground
		g.passTerminal(unix.Getpgrp(), g.id())
	}
	_ = unix.Kill(-g.id(), received)
	return recorded(received), ""
}

// stop asks all processes to end. A stopped one does so when it is continued.
func (g *group) stop() {
	g.send(g.signal)
	g.send(unix.SIGCONT)
}

// kill kills all processes, and not the guard, which ignores no SIGKILL, but holds the group's number until the end: it
// is not waited for before.
func (g *group) kill() { g.send(unix.SIGKILL) }

// see notes when a process of the task was created.
func (g *group) see(pid int, created int64) { g.seen[pid] = created }

// send sends a signal to the group, and to those of its descendants that have left it: they were listed just now, and a
// process that was created at another time is another one.
func (g *group) send(number unix.Signal) {
	_ = unix.Kill(-g.id(), number)
	for pid, created := range g.seen {
		if id, err := unix.Getpgid(pid); err != nil || id == g.id() {
			continue
		}
		p, err := process.NewProcess(int32(pid)) //nolint:gosec // a PID
		if err != nil {
			continue
		}
		if now, err := p.CreateTime(); err == nil && now == created {
			_ = unix.Kill(pid, number)
		}
	}
}

// close ends the guard.
func (g *group) close() error {
	_ = g.guard.Process.Kill() // fails if it was killed with the group
	_ = g.guard.Wait()         // it was killed
	if g.terminal != nil {
		g.terminal.Close()
	}
	return g.leash.Close()
}

// recorded returns the number that a signal has in records, that of Linux: others have other numbers for some.
func recorded(s syscall.Signal) int {
	if number, ok := record.ParseSignal(unix.SignalName(s)); ok {
		return number
	}
	return int(s)
}

// parseSignal parses TERM, SIGTERM or 15; 0 for anything else.
func parseSignal(word string) syscall.Signal {
	if number, err := strconv.ParseUint(word, 10, 5); err == nil {
		return syscall.Signal(number)
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(word), "SIG"))
}
