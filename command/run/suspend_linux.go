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

// suspend gives the terminal back, stops this process's group, and takes the terminal again when the shell lets it go
// on.
func (s *session) suspend(ctx context.Context) {
	s.screen.clear()
	if err := s.streams.giveBack(); err != nil {
		s.screen.note(err.Error())
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	// Without a shell that could resume us the kernel discards the signal: then there is nothing to wait for.
	const discarded = 100 * time.Millisecond
	if err := unix.Kill(0, unix.SIGTSTP); err == nil {
		select {
		case <-resumed:
		case <-time.After(discarded):
		case <-ctx.Done():
		}
	}
	if err := s.streams.takeAgain(); err != nil {
		s.screen.note(err.Error())
	}
	s.tell(ctx, unix.SIGCONT)
}

// pause stops the command and this process, which a shell's key has reached, until the latter is continued. A command
// without a terminal leads a session of its own: the kernel stops no group there but by SIGSTOP.
func (s *session) pause(ctx context.Context) {
	if !resumable() {
		return
	}
	s.screen.clear()
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	s.tell(ctx, unix.SIGSTOP)
	// The runtime would drop another SIGTSTP: once caught it has no default any more. The kernel may stop another thread
	// first, so this one has to wait.
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err == nil {
		select {
		case <-resumed:
		case <-ctx.Done():
		}
	}
	s.tell(ctx, unix.SIGCONT)
}

// tell sends the command's group a signal.
func (s *session) tell(ctx context.Context, number unix.Signal) {
	if err := s.client.Signal(ctx, number, true); err != nil && ctx.Err() == nil && status.Code(err) != codes.NotFound {
		s.screen.note(err.Error())
	}
}

// resumable reports whether somebody in our session looks after our process group. Otherwise the group is orphaned: a
// key stops nobody in it, because nobody would let them go on, setpgid(2).
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
