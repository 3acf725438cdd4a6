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
	"syscall"
	"time"
)

// churn forks short-lived children that fork short-lived children, two at a time, all busy.
func (w *workload) churn() error {
	const lines, shells, commands = 2, 30, 5
	ended := make(chan error, lines)
	for range lines {
		go func() { ended <- churnLine(shells, commands) }()
	}
	w.truth.Processes += lines * shells * (1 + commands)
	return errors.Join(<-ended, <-ended)
}

func churnLine(shells, commands int) error {
	for range shells {
		// The shell's own 2 ms come after those of its commands, so that it has something to report besides.
		if err := (role{burn: 2 * time.Millisecond, commands: commands}).run(); err != nil {
			return err
		}
	}
	return nil
}

// hundred has a hundred processes alive at once that have used 4 ms each: less than one tick of stat.
func (w *workload) hundred() error {
	c, err := w.startCrew(100, role{burn: 4 * time.Millisecond})
	if err != nil {
		return err
	}
	if err := c.reported(); err != nil {
		return err
	}
	// Time for a sample that has all of them.
	time.Sleep(1200 * time.Millisecond)
	return c.letGo()
}

// crew are children that report when they have played their role, and stay until they are let go.
type crew struct {
	children                         []*os.Process
	reports, reporter, hold, release *os.File
}

func (w *workload) startCrew(count int, r role) (c *crew, err error) {
	c = &crew{}
	if c.reports, c.reporter, err = os.Pipe(); err != nil {
		return nil, err
	}
	if c.hold, c.release, err = os.Pipe(); err != nil {
		return nil, err
	}
	r.report, r.hold = c.reporter, c.hold
	for range count {
		p, err := r.start()
		if err != nil {
			return nil, err
		}
		c.children = append(c.children, p)
	}
	w.truth.Processes += count
	return c, c.reporter.Close()
}

// reported returns when all have reported.
func (c *crew) reported() error {
	_, err := readReports(c.reports, len(c.children))
	return err
}

// letGo has all end, and waits for them.
func (c *crew) letGo() error {
	return errors.Join(c.release.Close(), wait(c.children...), c.hold.Close(), c.reports.Close())
}

// abandon starts children and never waits: they stay zombies until it ends itself.
func (w *workload) abandon() error {
	last, err := w.lastWords()
	if err != nil {
		return err
	}
	return w.unwaited(10, role{burn: 80 * time.Millisecond}, last)
}

// ignore has its children reaped by the kernel: their times are lost.
func (w *workload) ignore() error {
	last, err := w.lastWords()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGCHLD)
	return w.unwaited(10, role{burn: 80 * time.Millisecond}, last)
}

// daemons leaves its session and its parent behind, twice, as daemons do.
func (w *workload) daemons() error {
	last, err := w.lastWords()
	if err != nil {
		return err
	}
	return w.unwaited(4, role{burn: 150 * time.Millisecond, daemon: true}, last)
}

// lastWords says what a child uses after its report, to exit: the median of some that are waited for. One alone can have used ten
// times as much on a busy machine, and what it says is counted for each child.
func (w *workload) lastWords() (time.Duration, error) {
	var all [7]time.Duration
	for i := range all {
		var err error
		if all[i], err = w.lastWordsOfOne(); err != nil {
			return 0, err
		}
	}
	slices.Sort(all[:])
	return all[len(all)/2], nil
}

func (w *workload) lastWordsOfOne() (time.Duration, error) {
	reports, reporter, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer reports.Close()
	p, err := role{burn: 5 * time.Millisecond, report: reporter}.start()
	reporter.Close()
	if err != nil {
		return 0, err
	}
	w.truth.Processes++
	state, err := p.Wait()
	if err != nil {
		return 0, err
	}
	reported, err := readReports(reports, 1)
	return state.UserTime() + state.SystemTime() - reported, err
}

// unwaited starts children that report for themselves, and goes on when all of them are gone. Each of them uses a
// last bit after its report.
func (w *workload) unwaited(count int, r role, last time.Duration) error {
	reports, reporter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	r.report = reporter
	for range count {
		p, err := r.start()
		if err != nil {
			return err
		}
		if r.daemon {
			err = wait(p)
			w.truth.Processes++ // the one in the middle
		} else {
			err = p.Release()
		}
		if err != nil {
			return err
		}
	}
	reporter.Close()
	w.truth.Processes += count
	used, err := readReports(reports, count)
	if err != nil {
		return err
	}
	// The last end of the pipe closes when the last of them exits.
	if _, err := io.Copy(io.Discard, reports); err != nil {
		return err
	}
	w.truth.CPU.Reported += (used + time.Duration(count)*last).Seconds()
	// Time for a sample without them.
	time.Sleep(300 * time.Millisecond)
	return nil
}

// readReports sums the first count readings that children wrote.
func readReports(from io.Reader, count int) (time.Duration, error) {
	var sum time.Duration
	lines := bufio.NewScanner(from)
	for range count {
		if !lines.Scan() {
			return 0, fmt.Errorf("read reports: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
		}
		ns, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read reports: %w", err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

func wait(children ...*os.Process) error {
	for _, p := range children {
		state, err := p.Wait()
		if err != nil {
			return err
		}
		if !state.Success() {
			return fmt.Errorf("child %d: %s", p.Pid, state)
		}
	}
	return nil
}
