// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// niceLead is by how much the executor goes before its task: it needs little CPU, but that little on time, also
// where others take all there is. Half of it was measured to leave samples late by tens of milliseconds. Without
// CAP_SYS_NICE it has to do without.
const niceLead = 20

// goBefore raises the priority of all threads of this process and returns the nice value that it was started with.
// Threads that are made later inherit it; the one that forks tasks gives it up again, see launcher.run.
func goBefore() (started int, err error) {
	started, err = niceOf(os.Getpid())
	if err != nil {
		return 0, err
	}
	const lowest = -20
	nice := max(started-niceLead, lowest)
	// A thread that is made meanwhile may come from one that was not changed yet.
	for changed := true; changed; {
		changed = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return started, fmt.Errorf("list threads: %w", err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				continue
			}
			if now, err := niceOf(tid); err != nil || now == nice {
				continue // it has ended, or is done
			}
			err = unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return started, fmt.Errorf("set nice value %d: %w", nice, err)
			}
			changed = true
		}
	}
	return started, raiseAutogroup(nice)
}

// raiseAutogroup does the same for our autogroup, sched(7): in the root of the cpu hierarchy all processes of a session
// share one weight, and their nice values count only among themselves. The session is our own, the task has another.
func raiseAutogroup(nice int) error {
	const file = "/proc/self/autogroup"
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		return nil //nolint:nilerr // others are in it, or nobody can say
	}
	err := os.WriteFile(file, []byte(strconv.Itoa(nice)), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without autogroups
	}
	return err
}

// niceOf returns the nice value of a thread. The system call returns 20 minus that, getpriority(2).
func niceOf(tid int) (int, error) {
	const offset = 20
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil {
		return 0, fmt.Errorf("read nice value: %w", err)
	}
	return offset - priority, nil
}

// stepBack gives the calling thread the nice value that the executor was started with, for its children to inherit.
func stepBack(started int) error {
	if now, err := niceOf(unix.Gettid()); err != nil || now == started {
		return nil //nolint:nilerr // what cannot be read was not changed either
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), started); err != nil {
		return fmt.Errorf("set nice value %d: %w", started, err)
	}
	return nil
}
