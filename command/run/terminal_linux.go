// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tachograph/tacho/executor/proto"
)

// openTerminal makes a pseudo terminal whose master can be read and written with a deadline. The ioctls of pty.Open
// make it blocking for good, as File.Fd does, so it gets a new file.
func openTerminal() (master, slave *os.File, err error) {
	opened, slave, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal for the command: %w", err)
	}
	defer opened.Close()
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, firstExtraFD)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open a terminal for the command: %w", err), slave.Close())
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open a terminal for the command: %w", err), unix.Close(fd), slave.Close())
	}
	return os.NewFile(uintptr(fd), opened.Name()), slave, nil
}

// ioctl makes a system call on a terminal that stays as it is: File.Fd would make it blocking.
func ioctl(terminal *os.File, call func(fd int) error) error {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(conn.Control(func(fd uintptr) { failed = call(int(fd)) }), failed)
}

// terminal gives the command a pseudo terminal of the same size and modes, and makes ours raw, so that every key
// reaches the command's. Where a stream is captured stderr is a terminal of its own: what two write to one cannot be
// told apart.
func (s *sessionStreams) terminal(o *runOptions, dir string) error {
	slave, err := s.addTerminal(o, dir, "stdout", os.Stdout)
	if err != nil {
		return err
	}
	s.master = s.shown[0].from
	s.stdio.Mode = proto.Stdio_MODE_TERMINAL
	s.stdio.StdinFd = s.passOn(slave)
	s.stdio.StdoutFd, s.stdio.StderrFd = s.stdio.StdinFd, s.stdio.StdinFd
	switch {
	case !term.IsTerminal(int(os.Stderr.Fd())):
		s.stdio.StderrFd, err = s.output(o, dir, "stderr", os.Stderr)
	case len(o.capture) > 0:
		if slave, err = s.addTerminal(o, dir, "stderr", os.Stderr); err == nil {
			s.stdio.StderrFd = s.passOn(slave)
		}
	}
	if err != nil {
		return err
	}
	if s.wake, s.waker, err = os.Pipe(); err != nil {
		return fmt.Errorf("read the terminal: %w", err)
	}
	s.resize()
	_, err = s.take()
	return err
}

// addTerminal makes a terminal for a stream of the command, set up as ours.
func (s *sessionStreams) addTerminal(o *runOptions, dir, name string, own *os.File) (slave *os.File, err error) {
	t := tee{to: own}
	if o.captures(name) {
		if t.file, err = createCapture(dir, name); err != nil {
			return nil, err
		}
	}
	t.from, slave, err = openTerminal()
	s.shown = append(s.shown, t) // to be closed in any case
	if err != nil {
		return nil, err
	}
	// In the background our terminal is as the shell has it while it reads a line: that is nothing for the command's.
	if modes, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil && foreground(os.Stdin) {
		if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes); err != nil {
			return nil, errors.Join(fmt.Errorf("set up the command's terminal: %w", err), slave.Close())
		}
	}
	return slave, nil
}

// foreground reports whether this process may use a terminal: it stops a shell's background job that reads it or sets
// it up. What is not our controlling terminal stops nobody.
func foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetUint32(int(terminal.Fd()), unix.TIOCGPGRP)
	return err != nil || int(group) == unix.Getpgrp()
}

// resize gives the command's terminals the size of ours. A terminal without a size is no fault.
func (s *sessionStreams) resize() {
	if size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ); err == nil {
		for _, t := range s.shown {
			// The command is gone where this fails.
			_ = ioctl(t.from, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) })
		}
	}
}

// take makes our terminal raw, where it may be used now, and reports whether it may.
func (s *sessionStreams) take() (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away || !foreground(os.Stdin) {
		s.raw = false
		return false, nil
	}
	if s.raw {
		return true, nil
	}
	before, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return false, fmt.Errorf("make the terminal raw: %w", err)
	}
	if s.cooked == nil {
		s.cooked = before
	}
	s.raw = true
	return true, nil
}

// takeAgain takes our terminal after this process was stopped: a shell has set it up for itself meanwhile.
func (s *sessionStreams) takeAgain() error {
	s.mu.Lock()
	s.raw, s.away = false, false
	s.mu.Unlock()
	s.resize()
	_, err := s.take()
	return err
}

// giveBack restores our terminal for the shell, until takeAgain.
func (s *sessionStreams) giveBack() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = true
	if !s.raw || !foreground(os.Stdin) {
		return nil
	}
	s.raw = false
	return term.Restore(int(os.Stdin.Fd()), s.cooked)
}

// copyInput carries keys to the command until ctx ends. A read of the terminal cannot be called off, so it is made
// only when there is something to read, and in the foreground. A shell tells nobody that this is where they are now.
func (s *sessionStreams) copyInput(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		_ = s.waker.Close()                       // closing is the message
		_ = s.master.SetWriteDeadline(time.Now()) // nobody reads what is still to be written
	})
	defer stop()
	buffer := make([]byte, 4096)
	for ctx.Err() == nil {
		ready, err := s.awaitInput()
		if err != nil {
			return
		}
		if !ready {
			continue
		}
		n, err := unix.Read(int(os.Stdin.Fd()), buffer)
		if n <= 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return
		}
		if _, err := s.master.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// awaitInput waits until there is something to read on our terminal, or something else to look at.
func (s *sessionStreams) awaitInput() (ready bool, err error) {
	const pause = 200 // milliseconds in the background
	fds := []unix.PollFd{{Fd: int32(s.wake.Fd()), Events: unix.POLLIN}}
	limit := pause
	taken, err := s.take()
	if err != nil {
		return false, err
	}
	if taken {
		fds, limit = append(fds, unix.PollFd{Fd: int32(os.Stdin.Fd()), Events: unix.POLLIN}), -1
	}
	if _, err := unix.Poll(fds, limit); err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	if fds[0].Revents != 0 {
		_, err := s.wake.Read(make([]byte, 16))
		return false, err
	}
	if !taken || fds[1].Revents == 0 {
		return false, nil
	}
	return s.take() // the shell may have it by now
}

// show carries what the command writes to a terminal of its own to ours until the former has no user left, which
// reading reports as EIO, pty(7). Somebody may hold it for ever: a while after the end of the task that is the end too.
func (t tee) show(ctx context.Context, screen *screen) {
	defer endReads(ctx, t.from)()
	file := &capture{io.Discard, screen}
	if t.file != nil {
		file.file = t.file
	}
	buffer := make([]byte, 32<<10)
	pass := func() (n int, err error) {
		n, err = t.from.Read(buffer)
		if n > 0 {
			screen.output(t.to, buffer[:n])
			_, _ = file.Write(buffer[:n]) // never fails
		}
		return n, err
	}
	var err error
	for err == nil {
		_, err = pass()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.showRest(pass)
	}
}

// showRest passes what the terminal holds by now: whoever reads our output may have been slower than the task.
func (t tee) showRest(pass func() (int, error)) {
	const (
		most  = 128 << 10             // of 64 KiB in the driver's buffers and 4 KiB behind them, tty_buffer.c
		pause = 50 * time.Millisecond // in which the kernel moves it on from the one place to the other
	)
	for left := most; left > 0; {
		_ = t.from.SetReadDeadline(time.Now().Add(pause)) // the read tells
		n, err := pass()
		if err != nil {
			return
		}
		left -= n
	}
}

// followTerminal follows the size of our terminal, and our way back to it, until ctx ends.
func (s *sessionStreams) followTerminal(ctx context.Context, changed chan os.Signal) {
	defer signal.Stop(changed)
	for {
		select {
		case received := <-changed:
			s.resize()
			if received == unix.SIGCONT {
				_ = s.takeAgain()               // whoever reads it is told
				_, _ = s.waker.Write([]byte{0}) // in vain at the end
			}
		case <-ctx.Done():
			return
		}
	}
}
