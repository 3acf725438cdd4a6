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
)

// member is a process of the task that a pidfd holds on to.
type member struct {
	procstats.ProcessID
	pidfd int
}

// signal sends a signal; a process that is gone is no error.
func (m member) signal(signal unix.Signal) error {
	err := unix.PidfdSendSignal(m.pidfd, signal, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (m member) close() { _ = unix.Close(m.pidfd) } // a pidfd holds nothing that could be lost

// members returns every process below the executor. As a subreaper it is the ancestor of all of the task, whatever
// sessions, groups and cgroups the processes made for themselves.
func (t *task) members() ([]member, error) {
	var list []member
	err := walkChildren(t.children.host, os.Getpid(), func(pid, parent int) {
		if m, ok := hold(t.children.host, pid, parent); ok {
			list = append(list, m)
		}
	})
	return list, err
}

// hold takes a pidfd and then looks again whether it is the process that was listed: still a child of the same
// parent, or adopted by us in between.
func hold(host procstats.FS, pid, parent int) (member, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return member{}, false
	}
	identity, err := procstats.Identify(host, pid)
	if err != nil || (identity.PPID != parent && identity.PPID != os.Getpid()) {
		_ = unix.Close(fd)
		return member{}, false
	}
	return member{identity.ProcessID, fd}, true
}

// walkChildren visits every descendant of a process.
func walkChildren(host procstats.FS, pid int, visit func(pid, parent int)) error {
	return eachChild(host, pid, func(child int) error {
		visit(child, pid)
		return walkChildren(host, child, visit)
	})
}

// eachChild visits the children of every thread of a process, by /proc/PID/task/TID/children,
// proc_pid_task_children(5).
func eachChild(host procstats.FS, pid int, visit func(child int) error) error {
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
