// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
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
	// Daemon starts the rest of the role in a grandchild, in a session of its own, and exits at once.
	Daemon bool
	// Commands starts this many busy children, one after the other.
	Commands int
	// share is mapped and touched, ShareSize bytes of it.
	share     *os.File
	ShareSize int64
	// Copied writes this many bytes to a file in Dir and reads them again.
	Copied int64
	Dir    string
	// Burn uses the CPU until the process has used this much.
	Burn time.Duration
	// report is where the process writes its CPU clock, in nanoseconds.
	report  *os.File
	Reports bool // there is one, as start says
	// hold is waited for until it ends.
	hold  *os.File
	Holds bool
	// Linger waits for something that does not come.
	Linger bool
}

func standard() []*os.File { return []*os.File{os.Stdin, os.Stdout, os.Stderr} }

func newFlags(name string) *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }

// start starts a process in a role.
func (r role) start() *os.Process {
	self := r.self
	if self == "" {
		self = value(os.Executable())
	}
	r.Reports, r.Holds = r.report != nil, r.hold != nil
	args := []string{filepath.Base(self), "child", string(value(json.Marshal(r)))}
	return value(os.StartProcess(self, args, &os.ProcAttr{
		Files: append(standard(), r.report, r.hold, r.share),
		Sys:   &syscall.SysProcAttr{Setsid: r.Daemon},
	}))
}

// leave starts a process in a role and does not wait for it, but for the one that starts a daemon.
func (r role) leave() {
	if p := r.start(); r.Daemon {
		wait(p)
	} else {
		check(p.Release())
	}
}

// child takes on the role that its arguments describe.
func child(args []string) {
	var r role
	check(json.Unmarshal([]byte(strings.Join(args, "")), &r))
	if r.Reports {
		r.report = os.NewFile(reportFD, "report")
	}
	if r.Holds {
		r.hold = os.NewFile(holdFD, "hold")
	}
	if r.ShareSize > 0 {
		r.share = os.NewFile(shareFD, "share")
	}
	r.play()
}

func (r role) play() {
	if r.Daemon {
		r.Daemon = false
		r.leave()
		return
	}
	for range r.Commands {
		wait(role{Burn: 5 * time.Millisecond}.start())
	}
	if r.share != nil {
		touchShared(r.share, r.ShareSize)
	}
	if r.Copied > 0 {
		file := filepath.Join(r.Dir, "copied")
		writeFile(file, r.Copied, 0)
		readFile(file, 0)
	}
	burn(unix.CLOCK_PROCESS_CPUTIME_ID, r.Burn)
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
	if r.Linger {
		time.Sleep(time.Hour)
	}
}
