// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/internal/command/cli"
)

// forwarded returns the signals that are forwarded to the command. Those that were ignored at the start, as nohup does,
// stay ignored, by tacho and by the command.
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

// forward forwards signals to the command. Those that a terminal sends to a process group go to the command's group.
func (s *session) forward(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case received := <-signals:
			number, ok := received.(syscall.Signal)
			if !ok {
				continue
			}
			if number == unix.SIGTSTP {
				s.pause(ctx)
				continue
			}
			group := number == unix.SIGINT || number == unix.SIGQUIT
			err := s.client.Signal(ctx, number, group)
			if err != nil && ctx.Err() == nil && status.Code(err) != codes.NotFound {
				s.screen.fail(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// parseSignal parses TERM, SIGTERM or 15.
func parseSignal(flag, word string) (syscall.Signal, error) {
	name := strings.ToUpper(strings.TrimSpace(word))
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if number := unix.SignalNum(name); number != 0 {
		return number, nil
	}
	if number, err := strconv.Atoi(strings.TrimSpace(word)); err == nil && number > 0 && number <= 64 {
		return syscall.Signal(number), nil
	}
	return 0, cli.Usagef("%s %s: must be a name such as TERM or a number from 1 to 64", flag, word)
}
