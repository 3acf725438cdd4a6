// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/executor/wire"
	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// startLimit bounds the wait for an executor's address.
	startLimit = time.Minute
	// stderrLimit is the most that is reported of what an executor wrote to its standard error: a panic has its cause
	// first.
	stderrLimit = 16 << 10
)

// child is an executor that this process has started, in the way that go-plugin starts plugins. The client of
// go-plugin itself holds six goroutines and two pipes for as long as the executor runs, which is as long as the task
// does.
type child struct {
	log     hclog.Logger
	name    string        // for people
	process process.Child // an exec.Cmd holds arguments and environment, an os.Process a descriptor
	stdout  *os.File      // open until the start is confirmed: an executor whose caller is gone before ends its task
	stderr  int           // what it writes there waits in the pipe, and is read at its end
	ended   sync.Once
}

// startChild starts an executor and returns the path of its socket. Nothing is left of it if it returns an error.
func startChild(ctx context.Context, o Options, folder string, log hclog.Logger) (c *child, socket string, err error) {
	c = &child{log: log, name: o.ID}
	if err := c.start(o, folder); err != nil {
		return nil, "", err
	}
	killed := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = c.kill() // or it has ended
	})
	if o.Meanwhile != nil {
		o.Meanwhile()
	}
	_ = c.stdout.SetReadDeadline(time.Now().Add(startLimit)) // pipes have deadlines
	line, err := bufio.NewReaderSize(c.stdout, len(wire.Line(""))+2*paths.LongestSocket).ReadString('\n')
	if !release() {
		<-killed
	}
	if err == nil {
		socket, err = wire.SocketIn(line)
	}
	if err != nil {
		return nil, "", c.startError(ctx, err)
	}
	return c, socket, nil
}

// start starts the process with pipes for its output.
func (c *child) start(o Options, folder string) error {
	stdout, itsStdout, err := os.Pipe()
	if err != nil {
		return err
	}
	defer itsStdout.Close()
	var stderr [2]int // unread, it must block neither the executor nor this process
	if err := unix.Pipe2(stderr[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return errors.Join(fmt.Errorf("make pipe: %w", err), stdout.Close())
	}
	defer func() { _ = unix.Close(stderr[1]) }()
	p := processOf(o, folder)
	p.Files = []uintptr{^uintptr(0), itsStdout.Fd(), uintptr(stderr[1])} // the runtime opens /dev/null as the first
	for _, file := range o.ExtraFiles {
		p.Files = append(p.Files, file.Fd())
	}
	if err := c.fork(namedTacho(cmp.Or(o.Binary, "/proc/self/exe"), folder), p); err != nil {
		return errors.Join(err, stdout.Close(), unix.Close(stderr[0]))
	}
	c.stdout, c.stderr = stdout, stderr[0]
	return nil
}

// patience is the timer slack of an executor's threads, prctl(2) PR_SET_TIMERSLACK. The Go runtime has a thread that
// sleeps 20 us at a time while any other works, and takes the only P away from any goroutine that it finds in a
// system call twice; with the kernel's 50 us that was measured to be 40 % of what a tick costs, and 8 % of a short run.
// A tick may be that late.
const patience = 500 * time.Microsecond

// fork starts an executor with that, which it inherits from the thread that forks it: of the threads of others,
// CAP_SYS_NICE would be needed to change it. It is not an [exec.Cmd], whose first start in a process starts another
// process, to find out whether the kernel has pidfds.
func (c *child) fork(path string, p *syscall.ProcAttr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if slack, ok := kernel.ReadNumber("/proc/self/timerslack_ns"); ok { // this thread may have that of BePatient
		own = int(slack)
	}
	if err == nil && own != 0 { // a real-time thread has none since Linux 6.13, and 0 stands for the default
		p.Env = append(p.Env, wire.TimerSlack+"="+strconv.Itoa(own))
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(max(own, int(patience))), 0, 0, 0) // else it is impatient
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(own), 0, 0, 0) }()
	}
	pid, err := syscall.ForkExec(path, []string{"tacho", "executor", c.name}, p) // the id is for people who list processes
	c.process = process.Child(pid)
	return os.NewSyscallError("start "+path, err)
}

// BePatient gives the monitor thread of this process that timer slack, if this process has CAP_SYS_NICE: it wakes for
// nothing during a tick of many tasks, which was a twelfth of what they cost. The monitor is the first thread that the
// runtime makes. If thread IDs start over at that moment, another thread gets the slack, and its timers may be as late.
func BePatient() {
	threads, _ := os.ReadDir("/proc/self/task")
	if len(threads) > 1 {
		file := filepath.Join("/proc", threads[1].Name(), "timerslack_ns")
		_ = kernel.WriteFile(file, strconv.Itoa(int(patience))) // else it is impatient
	}
}

// startError ends the process and returns why it could not be started, in its own words if it had any.
func (c *child) startError(ctx context.Context, err error) error {
	_ = c.kill() // or it has ended
	c.ended.Do(func() {
		_ = c.await()
		c.confirmed()
		text, _, _ := strings.Cut(c.takeStderr(), "\n\n") // the stacks of a crash follow
		switch {
		case strings.Contains(text, "failed to create new OS thread"):
			err = fmt.Errorf("create a thread: %w", unix.EAGAIN)
		case text != "":
			err = errors.New(strings.TrimPrefix(text, wire.ErrorPrefix))
		}
	})
	return errors.Join(context.Cause(ctx), err)
}

// kill kills a process that has not been reaped yet.
func (c *child) kill() error { return c.process.Signal(unix.SIGKILL) }

// await reaps the process, and returns how it failed.
func (c *child) await() error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(int(c.process), &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("wait4", err)
		case status.Signaled():
			return fmt.Errorf("signal: %v", status.Signal())
		case status.ExitStatus() != 0:
			return fmt.Errorf("exit status %d", status.ExitStatus())
		default:
			return nil
		}
	}
}

// confirmed gives up what only the start needs. Confirming nil is fine.
func (c *child) confirmed() {
	if c != nil {
		_ = c.stdout.Close() // of what was only read; closed twice is fine
	}
}

// reap waits for the end of the process, and reports what it said. Reaping nil is fine.
func (c *child) reap() {
	if c == nil {
		return
	}
	c.ended.Do(func() {
		err := c.await()
		c.confirmed()
		if text := c.takeStderr(); text != "" {
			c.log.Error("executor failed", "executor", c.name, "error", err, "stderr", text)
		}
	})
}

// takeStderr returns what waits in the pipe, and closes it.
func (c *child) takeStderr() string {
	text := make([]byte, stderrLimit)
	n := 0
	for n < len(text) {
		got, err := unix.Read(c.stderr, text[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if got <= 0 {
			break
		}
		n += got
	}
	_ = unix.Close(c.stderr) // of what was only read
	return strings.TrimSpace(string(text[:n]))
}
