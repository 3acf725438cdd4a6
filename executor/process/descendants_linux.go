// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"os"
	"sync"

	"github.com/tachograph/tacho/procstats/kernel"
)

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
