// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors of a child: where it reports, what it holds on to, what it shares.
const (
	reportFD = 3 + iota
	holdFD
	shareFD
)

// role is what a child is for. The steps are taken in the order of the fields.
type role struct {
	// self is the program, where the process that starts the role cannot find it.
	self string
	// daemon starts the rest of the role in a grandchild, in a session of its own, and exits at once.
	daemon bool
	// commands starts this many busy children, one after the other.
	commands int
	// share maps and touches this file, of this size.
	share     *os.File
	shareSize int64
	// copied writes this many bytes to a file in dir and reads them again.
	copied int64
	dir    string
	// burn uses the CPU until the process has used this much.
	burn time.Duration
	// report writes the process's CPU clock, in nanoseconds, to this file.
	report *os.File
	// hold waits until this file ends.
	hold *os.File
	// linger waits for something that does not come.
	linger bool
}

func standard() []*os.File { return []*os.File{os.Stdin, os.Stdout, os.Stderr} }

func newFlags(name string) *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }

// start starts a process in a role.
func (r role) start() (*os.Process, error) {
	self := r.self
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	args := []string{
		filepath.Base(self), "child",
		"-daemon=" + strconv.FormatBool(r.daemon),
		"-commands=" + strconv.Itoa(r.commands),
		"-share=" + strconv.FormatInt(r.shareSize, 10),
		"-copy=" + strconv.FormatInt(r.copied, 10),
		"-dir=" + r.dir,
		"-burn=" + r.burn.String(),
		"-report=" + strconv.FormatBool(r.report != nil),
		"-hold=" + strconv.FormatBool(r.hold != nil),
		"-linger=" + strconv.FormatBool(r.linger),
	}
	p, err := os.StartProcess(self, args, &os.ProcAttr{
		Files: append(standard(), r.report, r.hold, r.share),
		Sys:   &syscall.SysProcAttr{Setsid: r.daemon},
	})
	if err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}
	return p, nil
}

// run starts a process in a role and waits for its end.
func (r role) run() error {
	p, err := r.start()
	if err != nil {
		return err
	}
	return wait(p)
}

// child takes on the role that its arguments describe.
func child(args []string) error {
	var r role
	flags := newFlags("child")
	flags.BoolVar(&r.daemon, "daemon", false, "")
	flags.IntVar(&r.commands, "commands", 0, "")
	flags.Int64Var(&r.shareSize, "share", 0, "")
	flags.Int64Var(&r.copied, "copy", 0, "")
	flags.StringVar(&r.dir, "dir", "", "")
	flags.DurationVar(&r.burn, "burn", 0, "")
	flags.BoolVar(&r.linger, "linger", false, "")
	report := flags.Bool("report", false, "")
	hold := flags.Bool("hold", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *report {
		r.report = os.NewFile(reportFD, "report")
	}
	if *hold {
		r.hold = os.NewFile(holdFD, "hold")
	}
	if r.shareSize > 0 {
		r.share = os.NewFile(shareFD, "share")
	}
	return r.play()
}

func (r role) play() error {
	if r.daemon {
		r.daemon = false
		p, err := r.start()
		if err != nil {
			return err
		}
		return p.Release()
	}
	for range r.commands {
		if err := (role{burn: 5 * time.Millisecond}).run(); err != nil {
			return err
		}
	}
	if r.share != nil {
		if _, err := touchShared(r.share, r.shareSize); err != nil {
			return err
		}
	}
	if r.copied > 0 {
		file := filepath.Join(r.dir, "copied")
		if err := writeFile(file, r.copied, 0); err != nil {
			return err
		}
		if err := readFile(file, 0); err != nil {
			return err
		}
	}
	burn(unix.CLOCK_PROCESS_CPUTIME_ID, r.burn)
	return r.finish()
}

func (r role) finish() error {
	if r.report != nil {
		// One write below PIPE_BUF is never mixed with another's.
		if _, err := fmt.Fprintln(r.report, clock(unix.CLOCK_PROCESS_CPUTIME_ID).Nanoseconds()); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if r.hold != nil {
		if _, err := io.Copy(io.Discard, r.hold); err != nil {
			return fmt.Errorf("hold: %w", err)
		}
	}
	if r.linger {
		time.Sleep(time.Hour)
	}
	return nil
}
