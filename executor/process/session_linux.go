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
	if err != nil {
		return false
	}
	return now.PPID == t.self || parent != nil && now.PPID == parent.pid && parent.exists()
}
