// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tachograph/tacho/executor/proto"
)

// openTerminal opens a pseudo-terminal whose master supports deadlines. Calling File.Fd, as pty.Open does for its
// ioctls, makes a file blocking for good, so the master is a new file.
func openTerminal() (master, slave *os.File, err error) {
	opened, slave, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open pseudo-terminal: %w", err)
	}
	defer opened.Close()
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, firstExtraFD)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open pseudo-terminal: %w", err), slave.Close())
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open pseudo-terminal: %w", err), unix.Close(fd), slave.Close())
	}
	return os.NewFile(uintptr(fd), opened.Name()), slave, nil
}

// ioctl makes a system call on a terminal without File.Fd, which would make it blocking.
func ioctl(terminal *os.File, call func(fd int) error) error {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(conn.Control(func(fd uintptr) { failed = call(int(fd)) }), failed)
}

// terminal opens a pseudo-terminal of the same size and modes for the command, and makes ours raw, so that every key
// reaches the command. If a stream is captured, stderr gets a terminal of its own: the output of one terminal cannot be
// separated.
func (s *sessionStreams) terminal(o *runOptions, dir string) error {
	slave, err := s.addTerminal(o, dir, "stdout", os.Stdout)
	if err != nil {
		return err
	}
	s.master = s.tees[0].from
	s.stdio.Mode = proto.Stdio_MODE_TERMINAL
	s.stdio.StdinFd = s.inherit(slave)
	s.stdio.StdoutFd, s.stdio.StderrFd = s.stdio.StdinFd, s.stdio.StdinFd
	switch {
	case !term.IsTerminal(int(os.Stderr.Fd())):
		s.stdio.StderrFd, err = s.output(o, dir, "stderr", os.Stderr)
	case len(o.capture) > 0:
		if slave, err = s.addTerminal(o, dir, "stderr", os.Stderr); err == nil {
			s.stdio.StderrFd = s.inherit(slave)
		}
	}
	if err != nil {
		return err
	}
	if s.wake, s.waker, err = os.Pipe(); err != nil {
		return fmt.Errorf("read the terminal: %w", err)
	}
	s.resize()
	_, err = s.takeTerminal()
	return err
}

// addTerminal opens a terminal for a stream of the command, with the modes of ours.
func (s *sessionStreams) addTerminal(o *runOptions, dir, name string, own *os.File) (slave *os.File, err error) {
	t := tee{to: own, terminal: true}
	if slices.Contains(o.capture, name) {
		if t.file, err = createCapture(dir, name); err != nil {
			return nil, err
		}
	}
	t.from, slave, err = openTerminal()
	s.tees = append(s.tees, t) // closed in any case
	if err != nil {
		return nil, err
	}
	// In the background our terminal has the modes of the shell's line editor.
	if modes, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil && foreground(os.Stdin) {
		if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes); err != nil {
			return nil, errors.Join(fmt.Errorf("set modes of pseudo-terminal: %w", err), slave.Close())
		}
	}
	return slave, nil
}

// foreground reports whether this process may use a terminal: reading it or setting its modes stops a background job of
// a shell. A terminal that is not the controlling one stops no process.
func foreground(terminal *os.File) bool {
	group, err := unix.IoctlGetUint32(int(terminal.Fd()), unix.TIOCGPGRP)
	return err != nil || int(group) == unix.Getpgrp()
}

// resize sets the size of the command's terminals to the size of ours, if it has one.
func (s *sessionStreams) resize() {
	if size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ); err == nil {
		for _, t := range s.tees {
			// Fails for pipes, and after the command has exited.
			_ = ioctl(t.from, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size) })
		}
	}
}

// takeTerminal makes our terminal raw and reports whether this process may use it now.
func (s *sessionStreams) takeTerminal() (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released || !foreground(os.Stdin) {
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
	s.original = cmp.Or(s.original, before)
	s.raw = true
	return true, nil
}

// retakeTerminal takes our terminal after this process was stopped: the shell has changed its modes meanwhile.
func (s *sessionStreams) retakeTerminal() error {
	s.mu.Lock()
	s.raw, s.released = false, false
	s.mu.Unlock()
	s.resize()
	_, err := s.takeTerminal()
	return err
}

// releaseTerminal restores our terminal for the shell, until retakeTerminal.
func (s *sessionStreams) releaseTerminal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	if !s.raw || !foreground(os.Stdin) {
		return nil
	}
	s.raw = false
	return term.Restore(int(os.Stdin.Fd()), s.original)
}

// copyInput copies keys to the command until ctx ends. A read of the terminal cannot be canceled, so it reads only if
// there is input, and in the foreground, which it polls: a shell does not notify us when it puts us there.
func (s *sessionStreams) copyInput(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		_ = s.waker.Close()                       // ends the poll
		_ = s.master.SetWriteDeadline(time.Now()) // ends a write that the command does not read
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
		for range bytes.Count(buffer[:n], []byte{interruptKey}) {
			if s.signals() {
				s.interrupted()
			}
		}
	}
}

// interruptKey is Ctrl-C, unless the command has chosen another, stty(1).
const interruptKey = 0x03

// signals reports whether the command's terminal turns keys into signals: editors read them as they are.
func (s *sessionStreams) signals() (does bool) {
	_ = ioctl(s.master, func(fd int) error { // fails after the command has exited
		modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		does = err == nil && modes.Lflag&unix.ISIG != 0
		return err
	})
	return does
}

// awaitInput waits until our terminal has input, or ctx or the foreground may have changed.
func (s *sessionStreams) awaitInput() (ready bool, err error) {
	const pause = 200 // milliseconds in the background
	fds := []unix.PollFd{{Fd: int32(s.wake.Fd()), Events: unix.POLLIN}}
	limit := pause
	taken, err := s.takeTerminal()
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
	return s.takeTerminal() // the shell may have put us into the background
}

// followTerminal handles changes of the size of our terminal, and takes it after SIGCONT, until ctx ends.
func (s *sessionStreams) followTerminal(ctx context.Context, changed chan os.Signal) {
	defer signal.Stop(changed)
	for {
		select {
		case received := <-changed:
			s.resize()
			if received == unix.SIGCONT {
				_ = s.retakeTerminal()          // copyInput gets the error
				_, _ = s.waker.Write([]byte{0}) // fails only after the end
			}
		case <-ctx.Done():
			return
		}
	}
}
