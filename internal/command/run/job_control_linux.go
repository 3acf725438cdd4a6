// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/procstats/kernel"
)

// suspend restores the terminal, stops the process group of tacho, and takes the terminal again after the shell has
// continued the group.
func (s *session) suspend(ctx context.Context) {
	s.screen.clear()
	if err := s.streams.releaseTerminal(); err != nil {
		s.screen.fail(err)
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	// The kernel discards the signal if the group is orphaned, without a shell that could continue it.
	const discarded = 100 * time.Millisecond
	if err := unix.Kill(0, unix.SIGTSTP); err == nil {
		select {
		case <-resumed:
		case <-time.After(discarded):
		case <-ctx.Done():
		}
	}
	if err := s.streams.retakeTerminal(); err != nil {
		s.screen.fail(err)
	}
	s.signalGroup(ctx, unix.SIGCONT)
}

// pause stops the command and this process on SIGTSTP, until this process is continued. A command without a terminal is
// in its own session and its group is orphaned: only SIGSTOP stops it.
func (s *session) pause(ctx context.Context) {
	if !resumable() {
		return
	}
	s.screen.clear()
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	s.signalGroup(ctx, unix.SIGSTOP)
	// A SIGTSTP would be caught again. The kernel may stop another thread first, so this one has to wait.
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err == nil {
		select {
		case <-resumed:
		case <-ctx.Done():
		}
	}
	s.signalGroup(ctx, unix.SIGCONT)
}

// signalGroup sends a signal to the command's process group.
func (s *session) signalGroup(ctx context.Context, number unix.Signal) {
	if err := s.client.Signal(ctx, number, true); err != nil && ctx.Err() == nil && status.Code(err) != codes.NotFound {
		s.screen.fail(err)
	}
}

// resumable reports whether a process of our session can continue our process group. Otherwise the group is orphaned
// and a stop key has no effect on it, setpgid(2).
func resumable() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for pid := os.Getppid(); pid > 0; {
		parent, err := kernel.Identify(kernel.HostFS(), pid)
		if err != nil || parent.Session != session {
			return false
		}
		if group, err := unix.Getpgid(pid); err != nil || group != unix.Getpgrp() {
			return err == nil
		}
		pid = parent.PPID
	}
	return false
}
