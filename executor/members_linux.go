// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// member is a process of the task that a pidfd holds on to; or, where there are none, a child of the executor, which
// nothing but the executor can reap.
type member struct {
	procstats.ProcessID
	pidfd    int // -1 for none
	children *reaper
}

// signal sends a signal; a process that is gone is no error.
func (m member) signal(signal unix.Signal) error {
	var err error
	if m.pidfd >= 0 {
		err = unix.PidfdSendSignal(m.pidfd, signal, nil, 0)
	} else {
		err = m.children.signalChild(m.ProcessID, signal)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (m member) close() {
	if m.pidfd >= 0 {
		_ = unix.Close(m.pidfd) // it holds nothing that could be lost
	}
}

// members returns every process below the executor. As a subreaper it is the ancestor of all of the task, whatever
// sessions, groups and cgroups the processes made for themselves. Without pidfds it is the executor's children only;
// when those end, theirs come home to it.
func (t *task) members() ([]member, error) {
	var list []member
	err := walkChildren(t.children.host, os.Getpid(), func(pid, parent int) {
		if m, ok := t.children.hold(pid, parent); ok {
			list = append(list, m)
		}
	})
	return list, err
}

// hold takes a pidfd and then looks again whether it is the process that was listed: still a child of the same
// parent, or adopted by us in between.
func (r *reaper) hold(pid, parent int) (member, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	denied := errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
	if err != nil && (!denied || parent != os.Getpid()) {
		return member{}, false
	}
	if denied { // before Linux 5.3, or by a filter of system calls
		fd = -1
	}
	m := member{pidfd: fd, children: r}
	identity, err := kernel.Identify(r.host, pid)
	if err != nil || (identity.PPID != parent && identity.PPID != os.Getpid()) {
		m.close()
		return member{}, false
	}
	m.ProcessID = identity.ProcessID
	return m, true
}

// signalChild signals a child of the executor while it cannot be reaped.
func (r *reaper) signalChild(id procstats.ProcessID, signal unix.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := kernel.Identify(r.host, id.PID)
	if err != nil || now.ProcessID != id || now.PPID != os.Getpid() {
		return unix.ESRCH
	}
	return unix.Kill(id.PID, signal)
}

// walkChildren visits every descendant of a process.
func walkChildren(host kernel.FS, pid int, visit func(pid, parent int)) error {
	return eachChild(host, pid, func(child int) error {
		visit(child, pid)
		return walkChildren(host, child, visit)
	})
}

// eachChild visits the children of every thread of a process, by /proc/PID/task/TID/children,
// proc_pid_task_children(5).
func eachChild(host kernel.FS, pid int, visit func(child int) error) error {
	paths, err := filepath.Glob(filepath.Join(host.Proc, strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		return fmt.Errorf("list children of %d: %w", pid, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread is gone; its children have another parent now and are found there
		}
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("%s: %q is no PID", path, word)
			}
			if err := visit(child); err != nil {
				return err
			}
		}
	}
	return nil
}
