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
func (r role) start() *os.Process {
	self := r.self
	if self == "" {
		self = value(os.Executable())
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
	return value(os.StartProcess(self, args, &os.ProcAttr{
		Files: append(standard(), r.report, r.hold, r.share),
		Sys:   &syscall.SysProcAttr{Setsid: r.daemon},
	}))
}

// leave starts a process in a role and does not wait for it, but for the one that starts a daemon.
func (r role) leave() {
	if p := r.start(); r.daemon {
		wait(p)
	} else {
		check(p.Release())
	}
}

// child takes on the role that its arguments describe.
func child(args []string) {
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
	check(flags.Parse(args))
	if *report {
		r.report = os.NewFile(reportFD, "report")
	}
	if *hold {
		r.hold = os.NewFile(holdFD, "hold")
	}
	if r.shareSize > 0 {
		r.share = os.NewFile(shareFD, "share")
	}
	r.play()
}

func (r role) play() {
	if r.daemon {
		r.daemon = false
		r.leave()
		return
	}
	for range r.commands {
		wait(role{burn: 5 * time.Millisecond}.start())
	}
	if r.share != nil {
		touchShared(r.share, r.shareSize)
	}
	if r.copied > 0 {
		file := filepath.Join(r.dir, "copied")
		writeFile(file, r.copied, 0)
		readFile(file, 0)
	}
	burn(unix.CLOCK_PROCESS_CPUTIME_ID, r.burn)
	r.finish()
}

func (r role) finish() {
	if r.report != nil {
		// One write below PIPE_BUF is never mixed with another's.
		value(fmt.Fprintln(r.report, clock(unix.CLOCK_PROCESS_CPUTIME_ID).Nanoseconds()))
	}
	if r.hold != nil {
		value(io.Copy(io.Discard, r.hold))
	}
	if r.linger {
		time.Sleep(time.Hour)
	}
}
