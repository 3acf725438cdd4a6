// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/proto"
)

const (
	// execBuffer is the most that one message of output holds.
	execBuffer = 8 << 10
	// execQuiet is how long a stream of an ended command is read on while nothing comes: by then a process that wrote
	// for it, as the last part of a pipeline does, has done so. A daemon that it left behind may hold the stream for
	// ever.
	execQuiet = 200 * time.Millisecond
	// execOver is how long output of others is passed on after the end of the command.
	execOver = 5 * time.Second
	// endOfInput is what a terminal takes for the end of its input, termios(3) VEOF.
	endOfInput = 0x04
)

// execStdio is the executor's side of the standard streams of an exec'ed command.
type execStdio struct {
	// streams are the command's side.
	streams *streams
	// stdin is the writing end of a pipe, or the terminal.
	stdin *os.File
	// stdout and stderr are reading ends of pipes; of a terminal there is only stdout.
	stdout, stderr *os.File
	terminal       bool
	// over is the time of the command's end; nil before.
	over atomic.Pointer[time.Time]
}

// openExecStdio makes a terminal, or three pipes, for a user.
func openExecStdio(terminal bool, credential *syscall.Credential) (*execStdio, error) {
	x := &execStdio{streams: &streams{terminal: terminal}, terminal: terminal}
	open := x.openPipes
	if terminal {
		open = x.openTerminal
	}
	err := open()
	if err == nil {
		err = giveTo(credential, x.streams.files...)
	}
	if err != nil {
		x.streams.started()
		x.close()
		return nil, fmt.Errorf("exec: %w", err)
	}
	return x, nil
}

// openPipes makes three pipes. Our ends wait in the runtime's poller; the command's block, as every command expects,
// because their descriptors are taken.
func (x *execStdio) openPipes() error {
	for _, ours := range []**os.File{&x.stdin, &x.stdout, &x.stderr} {
		own, theirs, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
		if ours == &x.stdin {
			own, theirs = theirs, own
		}
		x.streams.add(theirs)
		*ours = own
	}
	return nil
}

// openTerminal makes a pseudo terminal.
func (x *execStdio) openTerminal() error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("make terminal: %w", err)
	}
	defer master.Close()
	x.streams.files = append(x.streams.files, slave)
	for range 3 {
		x.streams.task = append(x.streams.task, slave.Fd())
	}
	// pty's calls have made the master blocking; a copy waits in the runtime's poller, and its reads can be ended.
	own, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("make terminal: %w", err)
	}
	if err := unix.SetNonblock(own, true); err != nil {
		return errors.Join(fmt.Errorf("make terminal: %w", err), unix.Close(own))
	}
	x.stdout = os.NewFile(uintptr(own), "terminal")
	x.stdin = x.stdout
	return nil
}

// writeInput gives the command input. One that does not want it any more is no error.
func (x *execStdio) writeInput(p []byte) {
	_, _ = x.stdin.Write(p) // as said
}

// closeInput says that no input comes any more.
func (x *execStdio) closeInput() {
	if x.terminal {
		x.writeInput([]byte{endOfInput})
		return
	}
	_ = x.stdin.Close() // it may be closed already
}

// resize sets the size of the terminal; the kernel tells the command by SIGWINCH. Without one it does nothing.
func (x *execStdio) resize(size *proto.WindowSize) error {
	if !x.terminal {
		return nil
	}
	raw, err := x.stdout.SyscallConn()
	if err != nil {
		return err
	}
	const most = 1<<16 - 1
	window := &unix.Winsize{Row: uint16(min(size.GetRows(), most)), Col: uint16(min(size.GetColumns(), most))}
	controlErr := raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, window) })
	return errors.Join(controlErr, err)
}

// pass sends what is written to a stream until no process has it open any more, or the command has ended and nothing
// comes. If the caller does not read it the stream is closed, and its writers get SIGPIPE.
func (x *execStdio) pass(from *os.File, send func([]byte) error) {
	buffer := make([]byte, execBuffer)
	for {
		if x.over.Load() != nil {
			x.readUntilQuiet(from)
		}
		n, err := from.Read(buffer)
		if n > 0 {
			if err := send(buffer[:n]); err != nil {
				_ = from.Close() // a reader has nothing to lose
				return
			}
		}
		// A short read has emptied the stream; what came after the command's end is not its own.
		over := x.over.Load()
		late := over != nil && time.Since(*over) > execOver && n < len(buffer)
		if err != nil || late { // EIO is the end of a terminal, pty(7)
			return
		}
	}
}

// isOver makes reads end soon that wait for output of an ended command.
func (x *execStdio) isOver() {
	now := time.Now()
	x.over.Store(&now)
	for _, f := range []*os.File{x.stdout, x.stderr} {
		if f != nil {
			x.readUntilQuiet(f)
		}
	}
}

func (x *execStdio) readUntilQuiet(f *os.File) {
	// It can only have been closed, and then reads end anyway.
	_ = f.SetReadDeadline(time.Now().Add(execQuiet)) // as said
}

func (x *execStdio) close() {
	for _, f := range []*os.File{x.stdin, x.stdout, x.stderr} {
		if f != nil {
			_ = f.Close() // some are closed already; nothing can be lost
		}
	}
}
