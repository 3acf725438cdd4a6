// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// niceLead is by how much the executor goes before its task: it needs little CPU, but that little on time, also
// where others take all there is. Half of it was measured to leave samples late by tens of milliseconds. Without
// CAP_SYS_NICE it has to do without.
const niceLead = 20

// patience is the timer slack of the executor's threads, prctl(2) PR_SET_TIMERSLACK. The Go runtime has a thread that
// sleeps 20 us at a time while any other works, and takes the only P away from any goroutine that it finds in a system call twice;
// with the kernel's 50 us that was measured to be 40 % of what a tick costs. A tick may be that late.
const patience = 500 * time.Microsecond

// scheduling is what a process inherits from the thread that forks it.
type scheduling struct {
	nice       int
	timerSlack time.Duration
	// autogroup is the nice value of the session's autogroup; nil if it was left as it was.
	autogroup *int
}

// raisePriority raises the priority of all threads of this process, makes their timers patient, and returns what it was
// started with. Threads that are made later inherit it; the one that forks tasks gives it up again, see launcher.run.
// Patience needs CAP_SYS_NICE, for threads other than the calling one.
func raisePriority() (started scheduling, err error) {
	if started.nice, err = niceOf(os.Getpid()); err != nil {
		return started, err
	}
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return started, fmt.Errorf("read timer slack: %w", err)
	}
	started.timerSlack = time.Duration(slack)
	const lowest = -20
	nice := max(started.nice-niceLead, lowest)
	// The one can be permitted without the other, by RLIMIT_NICE.
	patient := eachThread(func(tid int) (bool, error) { return setTimerSlack(tid, patience) })
	if err := eachThread(func(tid int) (bool, error) { return setNice(tid, nice) }); err != nil {
		return started, errors.Join(err, patient)
	}
	started.autogroup, err = raiseAutogroup(nice)
	return started, errors.Join(err, patient)
}

// eachThread changes all threads of this process. One that is made meanwhile may come from one that was not changed yet,
// so it goes on until nothing is left to change.
func eachThread(change func(tid int) (changed bool, err error)) error {
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				continue
			}
			changed, err := change(tid)
			if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			more = more || changed
		}
	}
	return nil
}

func setNice(tid, nice int) (changed bool, err error) {
	if now, err := niceOf(tid); err != nil || now == nice {
		return false, err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil {
		return false, fmt.Errorf("set nice value %d: %w", nice, err)
	}
	return true, nil
}

// setTimerSlack writes /proc/TID/timerslack_ns, proc(5), since Linux 4.6.
func setTimerSlack(tid int, slack time.Duration) (changed bool, err error) {
	file := "/proc/" + strconv.Itoa(tid) + "/timerslack_ns"
	want := strconv.FormatInt(slack.Nanoseconds(), 10)
	now, err := os.ReadFile(file)
	if err != nil || string(now) == want+"\n" {
		return false, err
	}
	if err := os.WriteFile(file, []byte(want), 0); err != nil {
		return false, fmt.Errorf("set timer slack: %w", err)
	}
	return true, nil
}

const autogroupFile = "/proc/self/autogroup"

// raiseAutogroup does the same for our autogroup, sched(7): in the root of the cpu hierarchy all processes of a session
// share one weight, and their nice values count only among themselves. The session is our own; a task that comes to
// share it is not to have what we took, see lowerAutogroup.
func raiseAutogroup(nice int) (before *int, err error) {
	if session, err := unix.Getsid(0); err != nil || session != os.Getpid() {
		return nil, nil //nolint:nilerr,nilnil // others are in it, or it is unknown
	}
	text, err := os.ReadFile(autogroupFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // a kernel without autogroups
	}
	if err != nil {
		return nil, err
	}
	_, number, found := strings.Cut(strings.TrimSpace(string(text)), " nice ")
	if !found {
		return nil, nil //nolint:nilnil // we are in none
	}
	old, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", autogroupFile, err)
	}
	if err := writeAutogroup(nice); err != nil {
		return nil, err
	}
	return &old, nil
}

// lowerAutogroup gives our autogroup back the nice value it had, for a task that is about to share our session.
func (started scheduling) lowerAutogroup() error {
	if started.autogroup == nil {
		return nil
	}
	// Without CAP_SYS_ADMIN the kernel takes one change in 100 ms, of all that ask, and refuses others with EAGAIN.
	const limit, pause = 2 * time.Second, 10 * time.Millisecond
	for began := time.Now(); ; <-time.After(pause) {
		err := writeAutogroup(*started.autogroup)
		if !errors.Is(err, unix.EAGAIN) || time.Since(began) > limit {
			return err
		}
	}
}

func writeAutogroup(nice int) error {
	if err := os.WriteFile(autogroupFile, []byte(strconv.Itoa(nice)), 0); err != nil {
		return fmt.Errorf("set nice value %d of the autogroup: %w", nice, err)
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

// restorePriority gives the calling thread what the executor was started with, for its children to inherit.
func restorePriority(started scheduling) error {
	if now, err := niceOf(unix.Gettid()); err == nil && now != started.nice {
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), started.nice); err != nil {
			return fmt.Errorf("set nice value %d: %w", started.nice, err)
		}
	}
	if started.timerSlack <= 0 {
		return nil // it was not read, and so not changed
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(started.timerSlack), 0, 0, 0); err != nil {
		return fmt.Errorf("set timer slack %s: %w", started.timerSlack, err)
	}
	return nil
}
