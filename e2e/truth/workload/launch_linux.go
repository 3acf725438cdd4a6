// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch runs a command as a process in odd circumstances would.
func launch(args []string) {
	flags := newFlags("launch")
	held := flags.Int64("hold", 0, "hold this many `bytes` of touched memory")
	ignored := flags.Bool("ignore-sigchld", false, "have SIGCHLD ignored, and become the command")
	check(flags.Parse(args))
	if flags.NArg() == 0 {
		check(errors.New("launch what?"))
	}
	if *ignored {
		signal.Ignore(syscall.SIGCHLD)
		check(unix.Exec(flags.Arg(0), flags.Args(), os.Environ()))
	}
	memory := touch(*held)
	p := value(os.StartProcess(flags.Arg(0), flags.Args(), &os.ProcAttr{Files: standard()}))
	state := value(p.Wait())
	if memory != nil {
		unmap(memory)
	}
	os.Exit(state.ExitCode())
}

// linger stays, with a child and with a daemon that left session and parent behind, until it is killed.
func linger(args []string) {
	flags := newFlags("linger")
	stubborn := flags.Bool("stubborn", false, "ignore the signals that ask to end")
	check(flags.Parse(args))
	if *stubborn {
		// Children inherit it up to the point where their own runtime starts.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	}
	reports, reporter := pipe()
	r := role{report: reporter, Linger: true}
	r.leave()
	r.Daemon = true
	r.leave()
	readReports(reports, 2)
	check(reports.Close())
	value(fmt.Println("ready"))
	role{Linger: true}.finish()
}
