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
	"path/filepath"
	"sync"
	"time"

	"github.com/creack/pty"
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
	// cooked is our terminal's state to go back to.
	cooked *term.State
	tees   []tee
}

// tee copies one stream of the command into a file on its way to ours.
type tee struct {
	from     *os.File
	to, file *os.File
}

// openSessionStreams decides what the command gets: a terminal of its own where ours is one, else our descriptors.
func openSessionStreams(o *runOptions, dir string) (*sessionStreams, error) {
	s := &sessionStreams{stdio: &proto.Stdio{}}
	var err error
	switch {
	case o.detach:
		s.detached(dir)
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
	return s, nil
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

// terminal gives the command a pseudo terminal of the same size and modes, and makes ours raw, so that every key
// reaches the command's.
func (s *sessionStreams) terminal(o *runOptions, dir string) error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a terminal for the command: %w", err)
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
	if size, err := pty.GetsizeFull(os.Stdin); err == nil {
		_ = pty.Setsize(s.master, size) // the command is gone where this fails
	}
}

// giveBack restores our terminal for the shell, takeAgain makes it raw again.
func (s *sessionStreams) giveBack() error { return term.Restore(int(os.Stdin.Fd()), s.cooked) }

func (s *sessionStreams) takeAgain() error {
	s.resize()
	_, err := term.MakeRaw(int(os.Stdin.Fd()))
	return err
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
	errs := []error{s.given()}
	if s.cooked != nil {
		errs = append(errs, term.Restore(int(os.Stdin.Fd()), s.cooked))
		s.cooked = nil
	}
	for _, t := range s.tees {
		errs = append(errs, t.file.Close())
	}
	s.tees = nil
	for _, f := range []*os.File{s.master, s.leash} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	s.master, s.leash = nil, nil
	return errors.Join(errs...)
}

// proxy carries what goes through this process until ctx ends and everything has arrived. The channel is closed
// then.
func (s *sessionStreams) proxy(ctx context.Context, screen *screen) <-chan struct{} {
	done := make(chan struct{})
	var work sync.WaitGroup
	for _, t := range s.tees {
		if t.from != nil {
			work.Go(func() { t.copy(ctx, screen) })
		}
	}
	if s.master != nil {
		changed := make(chan os.Signal, 1)
		signal.Notify(changed, unix.SIGWINCH)
		s.resize() // in case it changed before
		work.Go(func() { s.copyInput(ctx) })
		work.Go(func() { s.copyOutput(ctx, screen) })
		work.Go(func() { s.followSize(ctx, changed) })
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

// copyInput carries keys to the command until ctx ends. A read of the terminal cannot be called off, so it is made
// only when there is something to read.
func (s *sessionStreams) copyInput(ctx context.Context) {
	wake, waker, err := os.Pipe()
	if err != nil {
		return
	}
	defer wake.Close()
	stop := context.AfterFunc(ctx, func() { _ = waker.Close() }) // closing is the message
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
// as EIO, pty(7). Somebody may hold it for ever: a while after the end of the task it is closed.
func (s *sessionStreams) copyOutput(ctx context.Context, screen *screen) {
	defer endReads(ctx, s.master)()
	file := &capture{io.Discard, screen}
	for _, t := range s.tees {
		if t.from == nil {
			file.file = t.file
		}
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.master.Read(buffer)
		if n > 0 {
			screen.output(buffer[:n])
			_, _ = file.Write(buffer[:n]) // never fails
		}
		if err != nil {
			return
		}
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
