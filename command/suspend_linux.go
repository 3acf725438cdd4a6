// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// followStops suspends this process whenever the command was stopped by a key of its terminal (Ctrl-Z), as the shell
// expects of its job, and lets both go on together. It returns when ctx ends.
func (s *session) followStops(ctx context.Context) {
	if s.streams.master == nil {
		return
	}
	events, err := s.client.Events(ctx)
	if err != nil {
		return // the end of the executor tells the rest
	}
	for {
		event, err := events.Recv()
		if err != nil {
			return
		}
		if event.GetKind() == "stopped" {
			s.suspend(ctx)
		}
	}
}

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
	if err := s.client.Signal(ctx, unix.SIGCONT, true); err != nil && ctx.Err() == nil {
		s.screen.note(err.Error())
	}
}
