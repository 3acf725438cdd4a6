// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"os"
	"sync"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Descendants holds every process below this one; a subreaper is the ancestor of all that it has started, whatever
// sessions, groups and cgroups they made for themselves. Children are reaped under the lock reaping only. Without
// pidfds the list has the children of this process alone: when those end, theirs are reparented to it.
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

// isBelow reports whether a process is a child of this one, perhaps since its parent has died, or of parent: that one
// has its number still, so it had it when the child named it.
func (t *tree) isBelow(child int, parent *Process) bool {
	now, err := kernel.Identify(t.host, child)
	if err != nil {
		return false
	}
	return now.PPID == t.self || parent != nil && now.PPID == parent.pid && parent.exists()
}
