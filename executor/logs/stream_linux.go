// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bufferSize is the memory of one stream. Its pipe holds another 64 KiB, pipe(7).
const bufferSize = 16 << 10

// errHeld says that the pipe of an ended task still has a writer.
var errHeld = errors.New("a process outside the task holds it open")

// stream passes one of a task's streams from the pipe into the files. It belongs to one goroutine.
type stream struct {
	sink
	// files is the sink's target.
	files *series
	pipe  *os.File
	// task is the pipe's other end, until the task has it.
	task *os.File
	odds limiter
}

func openStream(f *folder, name string, o Options) (*stream, error) {
	s := &stream{sink: sink{name: name, report: o.Report, dropOnFull: o.DropOnFull}}
	var err error
	if s.files, err = openSeries(f, o.Prefix+"."+name, o, s.odd); err != nil {
		return nil, err
	}
	s.to = s.files
	// The reader waits in the runtime's poller and not in a thread; the writer blocks, as a task expects of its standard
	// streams, once its descriptor is taken, see [os.File.Fd].
	if s.pipe, s.task, err = os.Pipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("make pipe: %w", err), s.files.close())
	}
	return s, nil
}

// odd reports a file that cannot be trusted or removed.
func (s *stream) odd(name string, err error) {
	if !s.odds.pass() {
		return
	}
	if errors.Is(err, errRefused) || errors.Is(err, unix.EEXIST) {
		s.say(KindSkipped, fmt.Sprintf("%s skips %s: %v", s.name, name, err), "file", name)
		return
	}
	if errors.Is(err, errRemoved) {
		s.say(KindRemoved, fmt.Sprintf("%s goes on in another file: what was in %s is lost, because %v", s.name, name, err),
			"file", name)
		return
	}
	s.say(KindRemains, fmt.Sprintf("%s cannot remove %s: %v", s.name, name, err), "file", name)
}

// run passes bytes on until the pipe has no writer. Once ending is done no process of the task writes, and only the
// pipe's content is left; once hard is done run ends at once.
func (s *stream) run(ending, hard context.Context) {
	buffer := make([]byte, bufferSize)
	var err error
	for err == nil && ending.Err() == nil {
		var n int
		n, err = s.pipe.Read(buffer)
		s.put(hard, buffer[:n])
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) { // ending woke us
		err = s.drain(hard, buffer)
	}
	if !errors.Is(err, io.EOF) {
		s.reason = err
		s.count(s.left())
		s.say(KindAbandoned, fmt.Sprintf("%s is abandoned: %v", s.name, err))
	}
	s.reportDropped()
	// A remaining writer must not wait for a reader that will not come.
	_ = s.pipe.Close() // a reader has nothing to lose
}

// drain passes on the content of the pipe, without waiting for more.
func (s *stream) drain(hard context.Context, buffer []byte) error {
	for hard.Err() == nil {
		n, err := s.readReady(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // it was set a moment after we looked
			continue
		case errors.Is(err, unix.EAGAIN):
			return errHeld
		case err != nil:
			return fmt.Errorf("read pipe: %w", err)
		case n <= 0:
			return io.EOF
		}
		s.put(hard, buffer[:n])
	}
	return context.Cause(hard)
}

// readReady reads what is available: EAGAIN if nothing is, and 0 at the end.
func (s *stream) readReady(p []byte) (n int, err error) {
	// The deadline that woke us would end this read as well.
	if err := s.pipe.SetReadDeadline(time.Time{}); err != nil {
		return 0, err
	}
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	rawErr := raw.Read(func(fd uintptr) bool {
		n, err = ignoringEINTR(int(fd), p)
		return true
	})
	return n, errors.Join(rawErr, err)
}

func ignoringEINTR(fd int, p []byte) (n int, err error) {
	for {
		n, err = unix.Read(fd, p)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// left returns the number of bytes in the pipe.
func (s *stream) left() (bytes int) {
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return 0
	}
	err = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			bytes = n
		}
	})
	if err != nil {
		return 0
	}
	return bytes
}

// close closes pipe and files.
func (s *stream) close() error {
	err := s.files.close()
	if closeErr := s.pipe.Close(); !errors.Is(closeErr, os.ErrClosed) { // which it is after run
		err = errors.Join(err, closeErr)
	}
	if s.task != nil {
		err = errors.Join(err, s.task.Close())
	}
	return err
}
