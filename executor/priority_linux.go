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
)

// niceLead is by how much the executor goes before its task: it needs little CPU, but that little on time, also
// where others take all there is. Half of it was measured to leave samples late by tens of milliseconds. Without
// CAP_SYS_NICE it has to do without.
const niceLead = 20

// patience is the timer slack of the executor's threads, prctl(2) PR_SET_TIMERSLACK. The Go runtime has a thread that
// sleeps 20 us at a time while any other works, and takes the only P away from any goroutine that it finds in a
// system call twice; with the kernel's 50 us that was measured to be 40 % of what a tick costs. A tick may be that
// late.
const patience = 500 * time.Microsecond

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

// raisePriority raises the priority of all threads of this process and makes their timers patient, except for the
// thread that forks tasks, which inherit both. Threads that are made later are as those that make them, and that one
// makes none. Patience needs CAP_SYS_NICE, for threads other than the calling one.
func raisePriority(launcher int) error {
	now, err := niceOf(launcher)
	if err != nil {
		return err
	}
	const lowest = -20
	nice := max(now-niceLead, lowest)
	others := func(change func(tid int) error) error {
		return eachThread(func(tid int) error {
			if tid == launcher {
				return nil
			}
			return change(tid)
		})
	}
	// The one can be permitted without the other, by RLIMIT_NICE.
	patient := others(func(tid int) error { return setTimerSlack(tid, patience) })
	return errors.Join(others(func(tid int) error { return setNice(tid, nice) }), patient)
}

// eachThread changes all threads of this process, each once: the kernel need not keep what is written, as the timer
// slack of real-time threads, which is 0 since Linux 6.13. A thread that is made meanwhile may come from one that was
// not changed yet, so it goes on until there are no others.
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

// setTimerSlack writes /proc/TID/timerslack_ns, proc(5), since Linux 4.6.
func setTimerSlack(tid int, slack time.Duration) error {
	file := "/proc/" + strconv.Itoa(tid) + "/timerslack_ns"
	if err := os.WriteFile(file, []byte(strconv.FormatInt(slack.Nanoseconds(), 10)), 0); err != nil {
		return fmt.Errorf("set timer slack: %w", err)
	}
	return nil
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
