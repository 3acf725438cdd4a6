// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/cgroup"
	"github.com/tachograph/tacho/executor/process"
	"github.com/tachograph/tacho/procstats/kernel"
)

// command is what a launcher starts.
type command struct {
	path string
	argv []string
	env  []string
	dir  string
	// streams are the descriptors 0, 1 and 2; a terminal among them becomes the controlling one of the new session.
	streams *streams
	// credential is nil for the executor's own user.
	credential *syscall.Credential
	group      *cgroup.Group
	// oomScoreAdj is the task's; the executor's own is put back after the fork.
	oomScoreAdj int
	// networkNamespace is a path to join, or empty.
	networkNamespace string
	// forked is set just before the fork.
	forked time.Time
}

// launcher forks on one OS thread that lives as long as the executor. Two things belong to the forking thread and
// not to the process: its v1 cgroups, and the parent-death signal of its children (prctl(2) PR_SET_PDEATHSIG),
// which would fire early if the Go runtime ended the thread.
type launcher struct {
	requests chan func()
	// done is closed when no request will be served any more.
	done chan struct{}
	// thread is the thread that forks; 0 before run. Tasks get its scheduling, which is that of the executor's caller.
	thread atomic.Int32
}

func newLauncher() *launcher {
	return &launcher{requests: make(chan func()), done: make(chan struct{})}
}

// errEnding says that the executor ends and starts nothing any more.
var errEnding = errors.New("the executor is ending")

// run serves fork requests until ctx ends.
func (l *launcher) run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.done)
	restoreTimerSlack()
	l.thread.Store(int32(unix.Gettid())) //nolint:gosec // a thread
	for {
		select {
		case request := <-l.requests:
			request()
		case <-ctx.Done():
			return
		}
	}
}

// fork starts a command and returns its PID.
func (l *launcher) fork(ctx context.Context, c *command) (pid int, err error) {
	if ctx.Err() != nil { // both may be ready below
		return 0, context.Cause(ctx)
	}
	forked := make(chan struct{})
	request := func() {
		defer close(forked)
		pid, err = fork(c)
	}
	select {
	case l.requests <- request:
		<-forked
		return pid, err
	case <-l.done:
		return 0, errEnding
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func fork(c *command) (pid int, err error) {
	attributes := &syscall.ProcAttr{Dir: c.dir, Env: c.env, Files: c.streams.task, Sys: &syscall.SysProcAttr{
		// A session of its own: signals of the caller's terminal do not reach the task twice.
		Setsid:     true,
		Setctty:    c.streams.terminal,
		Ctty:       0,
		Credential: c.credential,
		// The task must not survive its executor unseen: the holder of the executor's pidfd kills the cgroup, but may
		// have been killed with it. Programs with setuid bits or file capabilities clear this, execve(2).
		Pdeathsig: syscall.SIGKILL,
	}}
	if c.streams.shared {
		attributes.Sys.Setsid, attributes.Sys.Setctty = false, false
		attributes.Sys.Foreground, attributes.Sys.Ctty = true, int(c.streams.task[0])
	}
	pid, err = enterAndFork(c, attributes, false)
	if err != nil && pid <= 0 && c.group.V2 != "" && cgroup.CanClone() != nil {
		return enterAndFork(c, attributes, true)
	}
	return pid, err
}

func enterAndFork(c *command, attributes *syscall.ProcAttr, visit bool) (pid int, err error) {
	if c.credential != nil && os.Geteuid() != 0 {
		// Ambient capabilities, such as CAP_SETUID of a user other than root, outlast a change of the user,
		// capabilities(7).
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("clear ambient capabilities: %w", err)
		}
	}
	leave, err := enter(c, attributes.Sys, visit)
	if err != nil {
		return 0, err
	}
	restore, err := lendOOMScore(c.oomScoreAdj)
	if err == nil {
		c.forked = time.Now() // joining cgroups can take long, and is not the task's time
		pid, err = syscall.ForkExec(c.path, c.argv, attributes)
		if err == nil {
			err = c.group.Hold(kernel.HostFS(), pid)
		}
		err = errors.Join(err, restore())
	}
	if leaveErr := leave(); leaveErr != nil {
		err = errors.Join(err, leaveErr)
	}
	if err != nil && pid > 0 {
		// The task runs although the executor's own affairs are not in order again: that is not the task's fault,
		// but an executor that may be charged to the task must not go on.
		err = errors.Join(err, process.Child(pid).Signal(unix.SIGKILL))
	}
	return pid, err
}

// enter moves the calling thread into what the new process inherits from it, and prepares the arguments of clone(2).
func enter(c *command, sys *syscall.SysProcAttr, visit bool) (leave func() error, err error) {
	leaveNetwork, err := enterNetwork(c.networkNamespace)
	if err != nil {
		return nil, err
	}
	leaveGroup, err := c.group.Enter(sys, visit)
	if err != nil {
		return nil, errors.Join(err, leaveNetwork())
	}
	return func() error { return errors.Join(leaveGroup(), leaveNetwork()) }, nil
}

// enterNetwork joins a network namespace with this thread only, setns(2).
func enterNetwork(path string) (leave func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("join network namespace: %w", err)
	}
	leave = func() error {
		err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
		return errors.Join(err, home.Close())
	}
	target, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("join network namespace: %w", err), home.Close())
	}
	defer target.Close()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, errors.Join(fmt.Errorf("join network namespace %s: %w", path, err), home.Close())
	}
	return leave, nil
}

const oomScoreFile = "/proc/self/oom_score_adj"

// lendOOMScore gives the executor the task's oom_score_adj for the time of the fork, because it is inherited, and
// returns how to put the executor's own back.
func lendOOMScore(score int) (restore func() error, err error) {
	own, err := kernel.OwnOOMScoreAdj(kernel.HostFS())
	if err != nil {
		return nil, fmt.Errorf("read oom_score_adj: %w", err)
	}
	if own == score {
		return func() error { return nil }, nil
	}
	write := func(score int) error { return kernel.WriteFile(oomScoreFile, strconv.Itoa(score)) }
	if err := write(score); err != nil {
		return nil, fmt.Errorf("set oom_score_adj %d: %w", score, err)
	}
	if now, err := kernel.OwnOOMScoreAdj(kernel.HostFS()); err != nil || now != score {
		return nil, errors.Join(fmt.Errorf("set oom_score_adj %d: read back %d", score, now), err, write(own))
	}
	return func() error { return write(own) }, nil
}
