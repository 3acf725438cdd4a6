// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// ErrGone says that a process has ended, or that its PID belongs to another process now.
var ErrGone = errors.New("process is gone")

// errNotHeld says that nothing guarantees that a PID will still belong to the process when a signal arrives.
var errNotHeld = errors.New("PID may be reused")

// Process is a process that is held: a signal reaches it or no process. Its methods may be called concurrently.
type Process struct {
	pid   int
	meant func() bool
	pin   Pin
	// pidfd is nil if there is none, for the reason in denied.
	pidfd  *os.File
	denied error
}

// Pin calls signal while the PID of a process cannot pass to another one. It returns ErrGone without calling it if
// the process is gone.
type Pin func(signal func() error) error

// Supported returns why processes cannot be held by pidfd here, or nil.
func Supported() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	return unix.Close(fd)
}

// Open holds the running process with an identity. The error is ErrGone if it has ended.
func Open(host kernel.FS, id procstats.ProcessID) (*Process, error) {
	return Hold(id.PID, func() bool { return kernel.Alive(host, id) }, nil)
}

// Hold holds the process that has a PID if meant then reports that it is the right one; otherwise the error is
// ErrGone. Without pidfds each signal is sent under pin, after asking meant again; without a pin none is sent.
func Hold(pid int, meant func() bool, pin Pin) (*Process, error) {
	if pid <= 0 {
		return nil, ErrGone // kill(2) would take it for a group, or for all processes
	}
	p := &Process{pid: pid, meant: meant, pin: pin}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	case errors.Is(err, unix.ESRCH):
		return nil, ErrGone
	default: // ENOSYS before Linux 5.3, EPERM from a system call filter, EMFILE
		p.denied = fmt.Errorf("%w: pidfd_open: %w", errNotHeld, err)
	}
	if !meant() {
		return nil, errors.Join(ErrGone, p.Close())
	}
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.pid }

// Signal sends a signal. It ignores a process that has ended.
func (p *Process) Signal(signal unix.Signal) error {
	err := p.send(signal)
	if err == nil || errors.Is(err, ErrGone) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("signal process %d: %w", p.pid, err)
}

func (p *Process) send(signal unix.Signal) error {
	switch {
	case p.pidfd != nil:
		return p.sendByPidfd(signal)
	case !p.meant():
		return ErrGone
	case p.pin == nil:
		return p.denied
	}
	return p.pin(func() error {
		if !p.meant() {
			return ErrGone
		}
		return unix.Kill(p.pid, signal)
	})
}

func (p *Process) sendByPidfd(signal unix.Signal) (err error) {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) { err = unix.PidfdSendSignal(int(fd), signal, nil, 0) })
	return errors.Join(controlErr, err)
}

// exists reports whether a process that is held by pidfd still has its PID: it runs, or has not been reaped.
func (p *Process) exists() bool {
	err := p.sendByPidfd(0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// pollInterval is the interval at which Wait checks a process without a pidfd.
const pollInterval = 100 * time.Millisecond

// Wait returns nil once the process has ended, also if it has not been reaped yet, and the cause of ctx if that ends
// first.
func (p *Process) Wait(ctx context.Context) error {
	if p.pidfd != nil && p.waitByPidfd(ctx) == nil {
		return nil
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for p.meant() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// waitByPidfd lets the runtime's poller wait, so that no thread does. An error says nothing of the process.
func (p *Process) waitByPidfd(ctx context.Context) error {
	set, ended := NewEpollSet(), make(chan struct{})
	defer set.Close()
	if _, err := p.Watch(set, func() { close(ended) }); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// hasEnded reports whether the process of a pidfd has ended, without waiting.
func hasEnded(pidfd uintptr) bool {
	events := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(events, 0)
	return err == nil && n > 0
}

// Watch calls ended once when the process has ended, even if it has not been reaped, in the goroutine of a set, which
// it must not block. Call unwatch before Close. After an error Wait still works.
func (p *Process) Watch(set *EpollSet, ended func()) (unwatch func(), err error) {
	if p.pidfd == nil {
		return nil, p.denied
	}
	fd := p.pidfd.Fd()
	err = set.Add(int(fd), func() (again bool) {
		if !hasEnded(fd) {
			return true
		}
		ended()
		return false
	})
	if err != nil {
		return nil, err
	}
	return func() { set.Remove(int(fd)) }, nil
}

// Close gives the process up.
func (p *Process) Close() error {
	if p.pidfd == nil {
		return nil
	}
	return p.pidfd.Close()
}

// Child is the PID of a child of this process. Callers of its methods ensure that no goroutine reaps children
// meanwhile: until a child is reaped its PID, and the process group of the same number, are not reused.
type Child int

// Signal sends a signal to the child. The error wraps ErrGone if it is not a child, or has been reaped.
func (c Child) Signal(signal unix.Signal) error { return c.send(int(c), signal) }

// SignalGroup sends a signal to the process group that the child has made.
func (c Child) SignalGroup(signal unix.Signal) error { return c.send(-int(c), signal) }

func (c Child) send(target int, signal unix.Signal) error {
	if c <= 0 {
		return ErrGone
	}
	err := unix.Waitid(unix.P_PID, int(c), nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == nil {
		err = unix.Kill(target, signal)
	}
	if errors.Is(err, unix.ECHILD) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal child %d: %w", c, ErrGone)
	}
	if err != nil {
		return fmt.Errorf("signal child %d: %w", c, err)
	}
	return nil
}

// KillChildren kills and reaps all children of this process. No other goroutine may reap them. It lists them only if
// there are any: the directory entries of this process's threads, which that makes, are flushed one by one at its end,
// while its parent waits for all of them in a loop (proc_invalidate_siblings_dcache in the kernel's fs/proc/inode.c).
func KillChildren(ctx context.Context, host kernel.FS) error {
	const pause = 2 * time.Millisecond
	for !reapEnded() {
		children, err := kernel.Children(host, os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range children {
			if err := Child(pid).Signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
				return err
			}
		}
		if reapEnded() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill children: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
	}
	return nil
}

// Childless reports whether this process has no child, not even one that was not reaped.
func Childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// reapEnded reaps every child that has ended, and reports whether no child is left.
func reapEnded() (none bool) {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return true
		case pid <= 0 && !errors.Is(err, unix.EINTR):
			return false
		}
	}
}

// State tells whether a process runs, was killed, or has ended.
type State int

const (
	// Alive processes run, or wait.
	Alive State = iota
	// Killed processes are dying, or have died, of a SIGKILL.
	Killed
	// Gone processes have ended in an unknown way, or otherwise than by a SIGKILL.
	Gone
)

// StateOf returns the state of a process that was seen before. A pending SIGKILL counts as its end.
func StateOf(host kernel.FS, id procstats.ProcessID) State {
	exit, err := kernel.ReadExit(host, id.PID)
	killed := unix.WaitStatus(exit.Status).Signal() == unix.SIGKILL
	pending := exit.Pending&(1<<(unix.SIGKILL-1)) != 0
	switch {
	case err != nil || exit.ProcessID != id:
		return Gone
	case exit.Zombie && !killed:
		return Gone
	case exit.Zombie, exit.Signaled, pending:
		return Killed
	}
	return Alive
}

// KillSession kills the processes of a session until it finds no more; it misses a process that made a session of its
// own. The number of a session is not reused while it has members, and no member is older than its leader. If another
// process has the leader's PID, the session had ended, and another one may have its number.
func KillSession(ctx context.Context, host kernel.FS, leader procstats.ProcessID) error {
	if leader.PID <= 0 {
		return nil
	}
	const pause = 5 * time.Millisecond
	for {
		left, err := killMembers(host, leader)
		if left == 0 || err != nil && !errors.Is(err, errNotHeld) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s left in session %d: %w",
				procstats.Counted(left, "process", "processes"), leader.PID, context.Cause(ctx)), err)
		case <-time.After(pause):
		}
	}
}

// killMembers kills the members of a session that it finds, and returns how many there were.
func killMembers(host kernel.FS, leader procstats.ProcessID) (left int, err error) {
	if now, err := kernel.Identify(host, leader.PID); err == nil && now.ProcessID != leader {
		return 0, nil
	}
	pids, err := kernel.Processes(host)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		member := func() bool { return inSession(host, pid, leader) }
		if !member() {
			continue
		}
		left++
		if killErr := Kill(pid, member); err == nil {
			err = killErr
		}
	}
	return left, err
}

// Kill kills a process if it is the one that is meant; one that is gone is no error.
func Kill(pid int, meant func() bool) error {
	p, err := Hold(pid, meant, nil)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(p.Signal(unix.SIGKILL), p.Close())
}

func inSession(host kernel.FS, pid int, leader procstats.ProcessID) bool {
	now, err := kernel.Identify(host, pid)
	return err == nil && now.Session == leader.PID && now.Start >= leader.Start && !now.Zombie
}

// Descendants holds every process below this one: a subreaper is the ancestor of all that it has started, in whatever
// sessions, groups and cgroups. It takes the lock reaping while children are reaped. Without pidfds it returns only
// the children of this process: when those end, theirs are reparented to it.
func Descendants(host kernel.FS, reaping sync.Locker) ([]*Process, error) {
	t := &tree{host: host, self: os.Getpid()}
	t.pin = func(signal func() error) error {
		reaping.Lock()
		defer reaping.Unlock()
		return signal()
	}
	err := t.addChildren(nil)
	return t.list, err
}

// tree collects the processes below this one.
type tree struct {
	host kernel.FS
	self int
	pin  Pin
	list []*Process
}

// addChildren adds what is below a process, or below this one if parent is nil.
func (t *tree) addChildren(parent *Process) error {
	pid := t.self
	if parent != nil {
		pid = parent.pid
	}
	children, err := kernel.Children(t.host, pid)
	errs := []error{err}
	for _, child := range children {
		p, err := Hold(child, func() bool { return t.isBelow(child, parent) }, t.pin)
		switch {
		case errors.Is(err, ErrGone):
		case err != nil:
			errs = append(errs, err)
		case p.pidfd != nil:
			t.list = append(t.list, p)
			errs = append(errs, t.addChildren(p))
		case parent == nil:
			t.list = append(t.list, p)
		}
	}
	return errors.Join(errs...)
}

// isBelow reports whether a process is a child of this one, perhaps since its parent has died, or of parent, which
// still has its PID.
func (t *tree) isBelow(child int, parent *Process) bool {
	now, err := kernel.Identify(t.host, child)
	return err == nil && (now.PPID == t.self || parent != nil && now.PPID == parent.pid && parent.exists())
}
