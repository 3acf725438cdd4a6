// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package run

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// forwarded returns the signals that are forwarded to the command and would end or disturb tacho otherwise. Those that
// were ignored at the start, as nohup does, stay ignored, by tacho and the command.
func forwarded() []os.Signal {
	list := []os.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}
	if !signal.Ignored(unix.SIGHUP) {
		list = append(list, unix.SIGHUP)
	}
	if !signal.Ignored(unix.SIGINT) {
		list = append(list, unix.SIGINT, unix.SIGQUIT)
	}
	return list
}

// stopSelf sends a signal that stops this process to a process, or to our process group, and waits until this process
// was continued, or ctx ends.
func stopSelf(ctx context.Context, pid int, number unix.Signal) {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT)
	defer signal.Stop(resumed)
	if err := unix.Kill(pid, number); err == nil {
		select {
		case <-resumed:
		case <-ctx.Done():
		}
	}
}
