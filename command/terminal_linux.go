// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

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
// reaches the command's.
func (s *sessionStreams) terminal(o *runOptions, dir string) error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	s.master = master
	s.stdio.Mode = proto.Stdio_MODE_TERMINAL
	s.stdio.StdinFd = s.passOn(slave)
	s.stdio.StdoutFd, s.stdio.StderrFd = s.stdio.StdinFd, s.stdio.StdinFd
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		if s.stdio.StderrFd, err = s.output(o, dir, "stderr", os.Stderr); err != nil {
			return err
		}
	}
	if o.captures("stdout") {
		file, err := createCapture(dir, "stdout")
		if err != nil {
			return err
		}
		s.tees = append(s.tees, tee{file: file})
	}
	if modes, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil {
		if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes); err != nil {
			return fmt.Errorf("set up the command's terminal: %w", err)
		}
	}
	s.resize()
	if s.cooked, err = term.MakeRaw(int(os.Stdin.Fd())); err != nil {
		return fmt.Errorf("make the terminal raw: %w", err)
	}
	return nil
}

// resize gives the command's terminal the size of ours. A terminal without a size is no fault.
func (s *sessionStreams) resize() {
	if size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ); err == nil {
		// The command is gone where this fails.
		_ = ioctl(s.master, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) })
	}
}

// giveBack restores our terminal for the shell, takeAgain makes it raw again.
func (s *sessionStreams) giveBack() error { return term.Restore(int(os.Stdin.Fd()), s.cooked) }

func (s *sessionStreams) takeAgain() error {
	s.resize()
	_, err := term.MakeRaw(int(os.Stdin.Fd()))
	return err
}

// copyInput carries keys to the command until ctx ends. A read of the terminal cannot be called off, so it is made
// only when there is something to read.
func (s *sessionStreams) copyInput(ctx context.Context) {
	wake, waker, err := os.Pipe()
	if err != nil {
		return
	}
	defer wake.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = waker.Close()                         // closing is the message
		_ = s.master.SetWriteDeadline(time.Now()) // nobody reads what is still to be written
	})
	defer stop()
	buffer := make([]byte, 4096)
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(os.Stdin.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if fds[1].Revents != 0 {
			return
		}
		if fds[0].Revents == 0 {
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

// copyOutput carries the command's output to the screen until its terminal has no user left, which reading reports
// as EIO, pty(7). Somebody may hold it for ever: a while after the end of the task that is the end too.
func (s *sessionStreams) copyOutput(ctx context.Context, screen *screen) {
	defer endReads(ctx, s.master)()
	file := &capture{io.Discard, screen}
	for _, t := range s.tees {
		if t.from == nil {
			file.file = t.file
		}
	}
	buffer := make([]byte, 32<<10)
	pass := func() (n int, err error) {
		n, err = s.master.Read(buffer)
		if n > 0 {
			screen.output(buffer[:n])
			_, _ = file.Write(buffer[:n]) // never fails
		}
		return n, err
	}
	var err error
	for err == nil {
		_, err = pass()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.drain(pass)
	}
}

// drain passes what the command's terminal holds by now: whoever reads our output may have been slower than the task.
func (s *sessionStreams) drain(pass func() (int, error)) {
	const (
		most  = 128 << 10             // of 64 KiB in the driver's buffers and 4 KiB behind them, tty_buffer.c
		pause = 50 * time.Millisecond // in which the kernel moves it on from the one place to the other
	)
	for left := most; left > 0; {
		_ = s.master.SetReadDeadline(time.Now().Add(pause)) // the read tells
		n, err := pass()
		if err != nil {
			return
		}
		left -= n
	}
}

func (s *sessionStreams) followSize(ctx context.Context, changed chan os.Signal) {
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			s.resize()
		case <-ctx.Done():
			return
		}
	}
}
