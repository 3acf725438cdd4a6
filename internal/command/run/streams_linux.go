// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !portable

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tachograph/tacho/executor/proto"
	"github.com/tachograph/tacho/procstats/kernel"
)

// firstExtraFD is the descriptor of the first extra file in the executor.
const firstExtraFD = 3

// sessionStreams are the standard streams of the command, and the leash.
type sessionStreams struct {
	// inherited are the files for the executor; ours are closed once it has them.
	inherited []*os.File
	// stdin is what the command reads, ours or a file; it stays open for the next run.
	stdin   *os.File
	stdio   *proto.Stdio
	leashFD uint32
	// leash is our end of a pipe: when this process dies, the kernel closes it and the executor notices.
	leash *os.File
	// master is our end of the command's terminal; nil if the command has our descriptors.
	master *os.File
	tees   []tee
	// interrupted is called for each Ctrl-C that the command's terminal turns into SIGINT.
	interrupted func()
	// wake is polled together with our terminal; writing to waker interrupts the poll.
	wake, waker *os.File

	mu sync.Mutex // guards following
	// raw says that our terminal is raw, released that it is the shell's for now; original is its state to restore.
	raw, released bool
	original      *term.State
}

// tee copies one stream of the command, a pipe or a terminal, to ours and to a file, which may be nil.
type tee struct {
	from     *os.File
	to, file *os.File
	terminal bool
}

// openSessionStreams opens a terminal for the command if we have one, else it uses our descriptors, and stdin.
func openSessionStreams(o *runOptions, stdin *os.File, dir string) (*sessionStreams, error) {
	s := &sessionStreams{stdio: &proto.Stdio{}, stdin: stdin}
	var err error
	switch {
	case o.detach:
		s.stdio.Mode, s.stdio.StdinPath = proto.Stdio_MODE_PATHS, o.input
		if dir != "" {
			s.stdio.StdoutPath, s.stdio.StderrPath = filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
		}
	case term.IsTerminal(int(stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())):
		err = s.terminal(o, dir)
	default:
		err = s.descriptors(o, dir)
	}
	if err == nil && !o.detach {
		err = s.openLeash()
	}
	if err == nil {
		err = s.inheritAll()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// inheritAll gives the command the descriptors above 2 that tacho was started with, under the same numbers. Those that
// tacho opened itself have FD_CLOEXEC. The executor must not inherit these numbers, too: it would never close them.
func (s *sessionStreams) inheritAll() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		// The descriptor that the list was read with is closed: an error.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		const above = 8 // the fork of the executor takes higher numbers, and a shell may have lowered the limit since
		if err := kernel.CheckFileLimit("descriptor "+entry.Name(), fd+above); err != nil {
			return err
		}
		unix.CloseOnExec(fd)
		s.stdio.Descriptors = append(s.stdio.Descriptors, &proto.Descriptor{
			Fd: s.inherit(os.NewFile(uintptr(fd), "descriptor "+entry.Name())), Number: uint32(fd),
		})
	}
	return nil
}

// inherit makes a file a descriptor of the executor and returns its number there.
func (s *sessionStreams) inherit(f *os.File) (fd uint32) {
	s.inherited = append(s.inherited, f)
	return uint32(firstExtraFD + len(s.inherited) - 1)
}

func (s *sessionStreams) descriptors(o *runOptions, dir string) error {
	s.stdio.Mode = proto.Stdio_MODE_DESCRIPTORS
	s.stdio.StdinFd = s.inherit(s.stdin)
	var err error
	if s.stdio.StdoutFd, err = s.output(o, dir, "stdout", os.Stdout); err != nil {
		return err
	}
	s.stdio.StderrFd, err = s.output(o, dir, "stderr", os.Stderr)
	return err
}

// output gives the command our own descriptor, or a pipe if the stream is captured.
func (s *sessionStreams) output(o *runOptions, dir, name string, own *os.File) (fd uint32, err error) {
	if !slices.Contains(o.capture, name) {
		return s.inherit(own), nil
	}
	file, err := createCapture(dir, name)
	if err != nil {
		return 0, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(fmt.Errorf("capture %s: %w", name, err), file.Close())
	}
	s.tees = append(s.tees, tee{from: from, to: own, file: file})
	return s.inherit(to), nil
}

func createCapture(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", name, err)
	}
	return file, nil
}

// openLeash opens the pipe by which the executor notices the end of this process.
func (s *sessionStreams) openLeash() error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open leash: %w", err)
	}
	s.leash, s.leashFD = ours, s.inherit(theirs)
	return nil
}

// closeInherited closes our copies of the descriptors of the executor: a pipe ends when all its writers are closed.
func (s *sessionStreams) closeInherited() error {
	var errs []error
	for _, f := range s.inherited {
		if f != s.stdin && f != os.Stdout && f != os.Stderr {
			errs = append(errs, f.Close())
		}
	}
	s.inherited = nil
	return errors.Join(errs...)
}

// close restores our terminal and closes all files.
func (s *sessionStreams) close() error {
	errs := []error{s.closeInherited(), s.releaseTerminal()}
	files := []*os.File{s.wake, s.waker, s.leash}
	for _, t := range s.tees {
		files = append(files, t.from, t.file)
	}
	for _, f := range files {
		if f == nil {
			continue
		}
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	s.tees, s.master, s.wake, s.waker, s.leash = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// proxy copies the streams that pass through this process until ctx ends and all is copied.
func (s *sessionStreams) proxy(ctx context.Context, work *sync.WaitGroup, screen *screen) {
	for _, t := range s.tees {
		work.Go(func() { t.copy(ctx, screen) })
	}
	if s.master != nil {
		changed := make(chan os.Signal, 1)
		signal.Notify(changed, unix.SIGWINCH, unix.SIGCONT)
		s.resize() // the size may have changed before
		work.Go(func() { s.copyInput(ctx) })
		work.Go(func() { s.followTerminal(ctx, changed) })
	}
}

// copy copies what the command writes until all writers are closed, which a terminal reports as EIO, pty(7), or shortly
// after the end of ctx, and so of the task: a process that is not the task's may keep the other end open. What is
// buffered then is copied, too: the reader of our output may have been slower than the task.
func (t tee) copy(ctx context.Context, screen *screen) {
	const (
		patience = time.Second
		most     = 128 << 10             // more than the kernel buffers: 64 KiB, of a terminal 4 KiB more, tty_buffer.c
		pause    = 50 * time.Millisecond // for the kernel to move data from one buffer of a terminal to the other
	)
	// The read fails then in any case.
	readUntil := func(after time.Duration) { _ = t.from.SetReadDeadline(time.Now().Add(after)) }
	defer context.AfterFunc(ctx, func() { readUntil(patience) })()
	var file io.Writer = io.Discard
	if t.file != nil {
		file = t.file
	}
	buffer := make([]byte, 32<<10)
	left, draining := most, false
	for left > 0 {
		n, err := t.from.Read(buffer)
		writeErr := t.write(buffer[:n], screen)
		if _, err := file.Write(buffer[:n]); err != nil { // the command must not fail because of it
			screen.fail(fmt.Errorf("capture: %w", err))
			file = io.Discard
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !draining {
			draining, err = true, nil
		}
		if draining {
			left -= n
			readUntil(pause)
		}
		if writeErr != nil {
			screen.fail(fmt.Errorf("capture: %w", writeErr))
		}
		if err != nil || writeErr != nil {
			break
		}
	}
	if !t.terminal {
		_ = t.from.Close() // the command cannot write any more
	}
}

// write writes to our stream. The command must notice that the reader of a pipe has gone.
func (t tee) write(text []byte, screen *screen) (err error) {
	switch {
	case len(text) == 0:
	case t.terminal:
		screen.output(t.to, text)
	default:
		_, err = t.to.Write(text)
	}
	return err
}
