// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	children, err := Children(t.host, pid)
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

// Children lists the children of every thread of a process, by /proc/PID/task/TID/children, proc_pid_task_children(5).
func Children(host kernel.FS, pid int) ([]int, error) {
	paths, err := filepath.Glob(filepath.Join(host.Proc, strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		return nil, fmt.Errorf("list children of %d: %w", pid, err)
	}
	var children []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread is gone; its children have another parent now and are found there
		}
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a PID", path, word)
			}
			children = append(children, child)
		}
	}
	return children, nil
}
