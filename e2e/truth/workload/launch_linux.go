// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch runs a command as a process in odd circumstances would.
func launch(args []string) error {
	flags := newFlags("launch")
	held := flags.Int64("hold", 0, "hold this many `bytes` of touched memory")
	ignored := flags.Bool("ignore-sigchld", false, "have SIGCHLD ignored, and become the command")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("launch what?")
	}
	if *ignored {
		signal.Ignore(syscall.SIGCHLD)
		return unix.Exec(flags.Arg(0), flags.Args(), os.Environ())
	}
	memory, err := touch(*held)
	if err != nil {
		return err
	}
	p, err := os.StartProcess(flags.Arg(0), flags.Args(), &os.ProcAttr{Files: standard()})
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err != nil {
		return err
	}
	if memory != nil {
		if err := unix.Munmap(memory); err != nil {
			return fmt.Errorf("munmap: %w", err)
		}
	}
	os.Exit(state.ExitCode())
	return nil
}

// linger stays, with a child and with a daemon that left session and parent behind, until it is killed.
func linger(args []string) error {
	flags := newFlags("linger")
	stubborn := flags.Bool("stubborn", false, "ignore the signals that ask to end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *stubborn {
		// Children inherit it up to the point where their own runtime starts.
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	}
	reports, reporter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	for _, r := range []role{{report: reporter, linger: true}, {report: reporter, linger: true, daemon: true}} {
		p, err := r.start()
		if err != nil {
			return err
		}
		if r.daemon {
			err = wait(p)
		} else {
			err = p.Release()
		}
		if err != nil {
			return err
		}
	}
	if _, err := readReports(reports, 2); err != nil {
		return err
	}
	if _, err := fmt.Println("ready"); err != nil {
		return err
	}
	return role{linger: true}.finish()
}
