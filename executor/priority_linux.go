// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/wire"
)

// niceLead is by how much the executor goes before its task: it needs little CPU, but that little on time, also
// where others take all there is. Half of it was measured to leave samples late by tens of milliseconds. Without
// CAP_SYS_NICE it has to do without.
const niceLead = 20

// settleDelay is the age at which a task is assumed to stay. What prepares its executor for that is spared one that
// ends earlier; and executors that are starting do not go before the ends of other tasks.
const settleDelay = 500 * time.Millisecond

// settle lets the executor go before others once its task stays.
func (e *Executor) settle(ctx context.Context) {
	select {
	case <-time.After(settleDelay):
	case <-ctx.Done():
		return
	}
	if err := raisePriority(int(e.launcher.thread.Load())); err != nil {
		e.log.Debug("raise scheduling priority", "error", err)
	}
}

// raisePriority raises the priority of all threads of this process, except for the thread that forks tasks, which
// inherit it. Threads that are made later are as those that make them, and that one makes none.
func raisePriority(launcher int) error {
	now, err := niceOf(launcher)
	if err != nil {
		return err
	}
	const lowest = -20
	nice := max(now-niceLead, lowest)
	return eachThread(func(tid int) error {
		if tid == launcher {
			return nil
		}
		return setNice(tid, nice)
	})
}

// eachThread changes all threads of this process, each once: the kernel need not keep what is written. A thread that is
// made meanwhile may come from one that was not changed yet, so it goes on until there are no others.
func eachThread(change func(tid int) error) error {
	changed := map[int]bool{}
	for before := -1; before < len(changed); {
		before = len(changed)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil || changed[tid] {
				continue
			}
			changed[tid] = true
			if err := change(tid); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func setNice(tid, nice int) error {
	if now, err := niceOf(tid); err != nil || now == nice {
		return err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil {
		return fmt.Errorf("set nice value %d: %w", nice, err)
	}
	return nil
}

// restoreTimerSlack gives this thread, and what it forks, the timer slack of the executor's caller.
func restoreTimerSlack() {
	if slack, err := strconv.Atoi(os.Getenv(wire.TimerSlack)); err == nil && slack > 0 {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) // it is no reason not to start a task
	}
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
