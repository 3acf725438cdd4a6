// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats/kernel"
)

// catchOthers begins to catch all other signals that are forwarded: all but those that cannot be caught, and those that
// are about tacho itself. To catch one or to stop doing so takes 20 µs of CPU time: so it is done while the executor
// starts, and not undone.
func catchOthers(others chan<- os.Signal) {
	var list []os.Signal
	const last = 64 // SIGRTMAX, signal(7)
	for number := unix.Signal(1); number <= last; number++ {
		switch number {
		case unix.SIGKILL, unix.SIGSTOP, 32, 33, 34: // the C library keeps the last three for its threads
		case unix.SIGCHLD, unix.SIGPIPE: // of our children, and of our own writing
		case unix.SIGURG, unix.SIGPROF: // of Go's scheduler, and of its profiler, which Notify does not get
		case unix.SIGTTIN, unix.SIGTTOU, unix.SIGTSTP: // of our terminal; see pause
		case unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT: // see forwarded
		default:
			list = append(list, number)
		}
	}
	signal.Notify(others, list...)
}

// ignoreRealtime ignores SIGRTMIN, or gives it its default action back. The Go runtime leaves that one to the C
// library musl (runtime/sigtab_linux_generic.go): Notify does not get it, and it would end this process. It is not
// ignored while the executor is started, which would inherit it.
func ignoreRealtime(ignore bool) error {
	var action [4]uint64 // struct sigaction of the kernel, the action first
	if ignore {
		action[0] = 1 // SIG_IGN
	}
	const number, maskSize = 34, 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("rt_sigaction", errno)
	}
	return nil
}

// forward forwards signals to the command. Those that a terminal sends to a process group go to the command's group.
func (s *session) forward(ctx context.Context, signals <-chan os.Signal) {
	for {
		var received os.Signal
		select {
		case received = <-signals:
		case received = <-s.others:
		case <-ctx.Done():
			return
		}
		number, _ := received.(syscall.Signal)
		switch hasTerminal := s.streams.master != nil; {
		case number == unix.SIGTSTP:
			s.pause(ctx)
		case hasTerminal && (number == unix.SIGWINCH || number == unix.SIGCONT):
			// followTerminal handles them, and the command's terminal sends its own.
		default:
			s.signal(ctx, number, number == unix.SIGINT || number == unix.SIGQUIT)
			if number == unix.SIGINT && !hasTerminal {
				s.interrupted()
			}
		}
	}
}

// interrupted says how to end a command that goes on after three Ctrl-C within a few seconds.
func (s *session) interrupted() {
	const limit = 3 * time.Second
	copy(s.interrupts[:], s.interrupts[1:])
	s.interrupts[2] = time.Now()
	if s.interrupts[2].Sub(s.interrupts[0]) > limit {
		return
	}
	s.interrupts = [3]time.Time{}
	s.screen.note("the command goes on after SIGINT: Ctrl-\\ sends SIGQUIT, and \"tacho stop " + s.id +
		"\" ends it in any case")
}

// parseSignal parses TERM, SIGTERM or 15.
func parseSignal(flag, word string) (syscall.Signal, error) {
	number, ok := record.ParseSignal(word)
	if !ok {
		return 0, cli.Usagef("%s %s: must be a name such as TERM or a number from 1 to 64", flag, word)
	}
	return syscall.Signal(number), nil
}

// followEvents handles the events of the executor until ctx or the task ends. When the command was stopped by a key
// of its terminal (Ctrl-Z), it suspends this process, too, as the shell expects of its job, and continues both
// together. It prints OOM kills as they happen, because the command may continue without the killed process.
func (s *session) followEvents(ctx context.Context) {
	stops := s.streams.master != nil
	if !stops && s.options.quiet {
		return
	}
	events, err := s.client.Events(ctx)
	if err != nil {
		return // Wait reports why
	}
	for {
		event, err := events.Recv()
		if err != nil {
			return
		}
		switch kind := event.GetKind(); {
		case kind == "stopped" && stops:
			s.suspend(ctx)
		case kind == "sampling_stretched" && s.options.firstInterval == 0: // an interval was requested
			s.screen.note(event.GetMessage())
		case kind == "oom_kill":
			s.screen.note("OOM kill: " + event.GetMessage())
		}
	}
}

// suspend restores the terminal, stops the process group of tacho, and takes the terminal again after the shell has
// continued the group.
func (s *session) suspend(ctx context.Context) {
	s.screen.clear()
	s.screen.fail(s.streams.releaseTerminal())
	// The kernel discards the signal if the group is orphaned, without a shell that could continue it.
	const discarded = 100 * time.Millisecond
	bounded, cancel := context.WithTimeout(ctx, discarded)
	stopSelf(bounded, 0, unix.SIGTSTP)
	cancel()
	s.screen.fail(s.streams.retakeTerminal())
	s.signal(ctx, unix.SIGCONT, true)
}

// pause stops the command and this process on SIGTSTP, until this process is continued. A command without a terminal is
// in its own session and its group is orphaned: only SIGSTOP stops it.
func (s *session) pause(ctx context.Context) {
	if !resumable() {
		return
	}
	s.screen.clear()
	s.signal(ctx, unix.SIGSTOP, true)
	// A SIGTSTP would be caught again. The kernel may stop another thread first, so this one has to wait.
	stopSelf(ctx, os.Getpid(), unix.SIGSTOP)
	s.signal(ctx, unix.SIGCONT, true)
}

// signal sends a signal to the command, or to its process group.
func (s *session) signal(ctx context.Context, number syscall.Signal, group bool) {
	err := s.client.Signal(ctx, number, group)
	if ctx.Err() == nil && status.Code(err) != codes.NotFound {
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
