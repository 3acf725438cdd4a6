// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// churn forks short-lived children that fork short-lived children, two at a time, all busy.
func (w *workload) churn() {
	const lines, commands = 2, 5
	var all sync.WaitGroup
	for range lines {
		all.Go(func() {
			defer exitIfFailed()
			for range w.shells {
				// The shell's own 2 ms come after those of its commands, so that it has something to report besides.
				wait(role{Burn: 2 * time.Millisecond, Commands: commands}.start())
			}
		})
	}
	w.truth.Processes += lines * w.shells * (1 + commands)
	all.Wait()
}

// hundred has a hundred processes alive at once that have used 4 ms each: less than one tick of stat.
func (w *workload) hundred() {
	c := w.startCrew(100, role{Burn: 4 * time.Millisecond})
	c.reported()
	// Time for a sample that has all of them.
	time.Sleep(1200 * time.Millisecond)
	c.letGo()
}

// pipe returns both ends of a pipe.
func pipe() (from, to *os.File) {
	from, to, err := os.Pipe()
	check(err)
	return from, to
}

// crew are children that report when they have played their role, and stay until they are let go.
type crew struct {
	children               []*os.Process
	reports, hold, release *os.File
}

func (w *workload) startCrew(count int, r role) *crew {
	c := &crew{}
	c.reports, r.report = pipe()
	c.hold, c.release = pipe()
	r.hold = c.hold
	for range count {
		c.children = append(c.children, r.start())
	}
	w.truth.Processes += count
	check(r.report.Close())
	return c
}

// reported returns when all have reported.
func (c *crew) reported() { readReports(c.reports, len(c.children)) }

// letGo has all end, and waits for them.
func (c *crew) letGo() {
	check(c.release.Close())
	wait(c.children...)
	check(errors.Join(c.hold.Close(), c.reports.Close()))
}

// abandon starts children and never waits: they stay zombies until it ends itself.
func (w *workload) abandon() { w.unwaited(10, role{Burn: 80 * time.Millisecond}, w.lastWords()) }

// ignore has its children reaped by the kernel: their times are lost.
func (w *workload) ignore() {
	last := w.lastWords()
	signal.Ignore(syscall.SIGCHLD)
	w.unwaited(10, role{Burn: 80 * time.Millisecond}, last)
}

// daemons leaves its session and its parent behind, twice, as daemons do.
func (w *workload) daemons() {
	w.unwaited(4, role{Burn: 150 * time.Millisecond, Daemon: true}, w.lastWords())
}

// lastWords says what a child uses after its report, to exit: the median of some that are waited for. One alone can
// have used ten times as much on a busy machine, and what it says is counted for each child.
func (w *workload) lastWords() time.Duration {
	var all [7]time.Duration
	for i := range all {
		reports, reporter := pipe()
		p := role{Burn: 5 * time.Millisecond, report: reporter}.start()
		check(reporter.Close())
		w.truth.Processes++
		state := value(p.Wait())
		all[i] = state.UserTime() + state.SystemTime() - readReports(reports, 1)
		check(reports.Close())
	}
	slices.Sort(all[:])
	return all[len(all)/2]
}

// unwaited starts children that report for themselves, and goes on when all of them are gone. Each of them uses a
// last bit after its report.
func (w *workload) unwaited(count int, r role, last time.Duration) {
	reports, reporter := pipe()
	r.report = reporter
	for range count {
		r.leave()
		if r.Daemon {
			w.truth.Processes++ // the one in the middle
		}
	}
	check(reporter.Close())
	w.truth.Processes += count
	used := readReports(reports, count)
	// The last end of the pipe closes when the last of them exits.
	value(io.Copy(io.Discard, reports))
	w.truth.CPU.Reported += (used + time.Duration(count)*last).Seconds()
	// Time for a sample without them.
	time.Sleep(300 * time.Millisecond)
}

// readReports sums the first count readings that children wrote.
func readReports(from io.Reader, count int) (sum time.Duration) {
	lines := bufio.NewScanner(from)
	for range count {
		if !lines.Scan() {
			check(fmt.Errorf("read reports: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF)))
		}
		sum += time.Duration(value(strconv.ParseInt(lines.Text(), 10, 64)))
	}
	return sum
}

func wait(children ...*os.Process) {
	for _, p := range children {
		check(waitForOne(p))
	}
}

func waitForOne(p *os.Process) error {
	state, err := p.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("child %d: %s", p.Pid, state)
	}
	return err
}
