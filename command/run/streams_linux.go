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
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/tachograph/tacho/executor/proto"
)

// firstExtraFD is the executor's descriptor for the first file it is given.
const firstExtraFD = 3

// sessionStreams are the command's standard streams as tacho run arranges them, and the leash.
type sessionStreams struct {
	// give are the files that the executor inherits; ours are closed once it has them.
	give    []*os.File
	stdio   *proto.Stdio
	leashFD uint32
	// leash is our end: when this process dies, however it dies, the kernel closes it and the executor knows.
	leash *os.File
	// master is our end of the command's terminal; nil where it has our own descriptors.
	master *os.File
	tees   []tee
	// shown are the command's terminals, of which the first is the controlling one.
	shown []tee
	// wake is read beside our terminal, so that its reader can be called by way of waker.
	wake, waker *os.File

	mu sync.Mutex // guards following
	// raw is whether our terminal is raw, away whether it was given back, cooked its state to go back to.
	raw, away bool
	cooked    *term.State
}

// tee copies one stream of the command into a file on its way to ours. Without a file it only carries it.
type tee struct {
	from     *os.File
	to, file *os.File
}

// openSessionStreams decides what the command gets: a terminal of its own where ours is one, else our descriptors.
func openSessionStreams(o *runOptions, dir string) (*sessionStreams, error) {
	s := &sessionStreams{stdio: &proto.Stdio{}}
	given, err := givenDescriptors()
	if err != nil {
		return nil, err
	}
	switch {
	case o.detach:
		s.detached(dir)
		s.passOnAll(given)
		return s, nil
	case term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())):
		err = s.terminal(o, dir)
	default:
		err = s.descriptors(o, dir)
	}
	if err == nil {
		err = s.hold()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.passOnAll(given)
	return s, nil
}

// givenDescriptors are those above 2 that tacho was started with: all that it opens itself are closed by execve(2).
func givenDescriptors() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("list descriptors: %w", err)
	}
	var given []int
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		// An error is that of the descriptor that the list was read with.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			given = append(given, fd)
		}
	}
	return given, nil
}

// passOnAll gives descriptors to the command under their own numbers. By these the executor must not inherit them too:
// it would keep them open.
func (s *sessionStreams) passOnAll(given []int) {
	for _, fd := range given {
		unix.CloseOnExec(fd)
		s.stdio.Descriptors = append(s.stdio.Descriptors, &proto.Descriptor{
			Fd: s.passOn(os.NewFile(uintptr(fd), "descriptor "+strconv.Itoa(fd))), Number: uint32(fd),
		})
	}
}

// detached streams go to files in the run's folder: there is nobody else to take them.
func (s *sessionStreams) detached(dir string) {
	s.stdio.Mode = proto.Stdio_MODE_NULL
	if dir != "" {
		s.stdio = &proto.Stdio{
			Mode:       proto.Stdio_MODE_PATHS,
			StdoutPath: filepath.Join(dir, "stdout"), StderrPath: filepath.Join(dir, "stderr"),
		}
	}
}

// passOn makes a file a descriptor of the executor.
func (s *sessionStreams) passOn(f *os.File) (fd uint32) {
	s.give = append(s.give, f)
	return uint32(firstExtraFD + len(s.give) - 1)
}

func (s *sessionStreams) descriptors(o *runOptions, dir string) error {
	s.stdio.Mode = proto.Stdio_MODE_DESCRIPTORS
	s.stdio.StdinFd = s.passOn(os.Stdin)
	var err error
	if s.stdio.StdoutFd, err = s.output(o, dir, "stdout", os.Stdout); err != nil {
		return err
	}
	s.stdio.StderrFd, err = s.output(o, dir, "stderr", os.Stderr)
	return err
}

// output passes our own descriptor on, or a pipe where the stream is captured too.
func (s *sessionStreams) output(o *runOptions, dir, name string, own *os.File) (fd uint32, err error) {
	if !o.captures(name) {
		return s.passOn(own), nil
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
	return s.passOn(to), nil
}

func createCapture(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", name, err)
	}
	return file, nil
}

func (s *sessionStreams) hold() error {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the leash: %w", err)
	}
	s.leash, s.leashFD = ours, s.passOn(theirs)
	return nil
}

// given closes what the executor has now: a pipe comes to its end only when nobody else holds it.
func (s *sessionStreams) given() error {
	var errs []error
	for _, f := range s.give {
		if f != os.Stdin && f != os.Stdout && f != os.Stderr {
			errs = append(errs, f.Close())
		}
	}
	s.give = nil
	return errors.Join(errs...)
}

// close restores our terminal and gives everything up.
func (s *sessionStreams) close() error {
	errs := []error{s.given(), s.giveBack()}
	files := []*os.File{s.wake, s.waker, s.leash}
	for _, t := range s.tees {
		files = append(files, t.file)
	}
	for _, t := range s.shown {
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
	s.tees, s.shown, s.master, s.wake, s.waker, s.leash = nil, nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// proxy carries what goes through this process until ctx ends and everything has arrived. The channel is closed
// then.
func (s *sessionStreams) proxy(ctx context.Context, screen *screen) <-chan struct{} {
	done := make(chan struct{})
	var work sync.WaitGroup
	for _, t := range s.tees {
		work.Go(func() { t.copy(ctx, screen) })
	}
	for _, t := range s.shown {
		work.Go(func() { t.show(ctx, screen) })
	}
	if s.master != nil {
		changed := make(chan os.Signal, 1)
		signal.Notify(changed, unix.SIGWINCH, unix.SIGCONT)
		s.resize() // in case it changed before
		work.Go(func() { s.copyInput(ctx) })
		work.Go(func() { s.followTerminal(ctx, changed) })
	}
	go func() {
		defer close(done)
		work.Wait()
	}()
	return done
}

// capture writes to a file for as long as that works: a copy that is not whole is no fault of the command.
type capture struct {
	file   io.Writer
	screen *screen
}

// Write implements io.Writer; it never fails.
func (c *capture) Write(text []byte) (int, error) {
	if _, err := c.file.Write(text); err != nil {
		c.screen.note("capture: " + err.Error())
		c.file = io.Discard
	}
	return len(text), nil
}

// endReads ends the reads of a file a while after the end of ctx, which is the task's: somebody else may hold the other
// end for ever.
func endReads(ctx context.Context, file *os.File) (stop func() bool) {
	const patience = time.Second
	return context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Now().Add(patience)) }) // it is the end either way
}

// copy carries what the task writes until nobody can write any more, or a while after the end of ctx.
func (t tee) copy(ctx context.Context, screen *screen) {
	defer endReads(ctx, t.from)()
	out := io.MultiWriter(t.to, &capture{t.file, screen})
	_, err := io.Copy(out, t.from)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = t.drain(out)
	}
	if err = errors.Join(err, t.from.Close()); err != nil {
		screen.note("capture: " + err.Error())
	}
}

// drain carries what is in the pipe by now: whoever reads our output may have been slower than the task.
func (t tee) drain(out io.Writer) error {
	if err := t.from.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	left, err := unix.IoctlGetInt(int(t.from.Fd()), unix.TIOCINQ) // the other name of FIONREAD
	if err != nil {
		return fmt.Errorf("bytes in the pipe: %w", err)
	}
	_, err = io.CopyN(out, t.from, int64(left))
	return err
}
