// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
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

// drainLimit bounds how long the end of a task waits for its logs, because a disk may be full, or a process outside
// the task may write into its streams forever.
const drainLimit = 2 * time.Second

// errDrainLimit is the cause of a drain that took longer.
var errDrainLimit = fmt.Errorf("the task has ended, and its logs could not be written within %s", drainLimit)

// Options say where a task's output goes and how much of it is kept.
type Options struct {
	// Dir is the folder, which exists. A symbolic link in its place is refused.
	Dir string
	// Prefix begins the files' names.
	Prefix string
	// MaxFileBytes is the length at which a file is followed by the next one.
	MaxFileBytes int64
	// MaxFiles is how many files of a stream are kept.
	MaxFiles int
	// DropOnFull drops bytes if a disk is full; otherwise the writers of the stream wait.
	DropOnFull bool
	// Report is called with events for the user, from several goroutines.
	Report Report
}

func (o *Options) check() error {
	if o.MaxFileBytes <= 0 || o.MaxFiles <= 0 {
		return fmt.Errorf("MaxFiles %d, MaxFileBytes %d: %w", o.MaxFiles, o.MaxFileBytes, ErrInvalid)
	}
	return checkPrefix(o.Prefix)
}

// Collector reads a task's standard output and standard error from pipes and writes them to files.
type Collector struct {
	folder         *folder
	stdout, stderr *stream
}

// Open opens the files and makes the pipes. The error wraps ErrInvalid if the options are invalid. The caller closes
// the Collector.
func Open(o Options) (*Collector, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	folder, err := openFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	stdout, err := openStream(folder, "stdout", o)
	if err != nil {
		return nil, errors.Join(err, folder.close())
	}
	stderr, err := openStream(folder, "stderr", o)
	if err != nil {
		return nil, errors.Join(err, stdout.close(), folder.close())
	}
	return &Collector{folder: folder, stdout: stdout, stderr: stderr}, nil
}

// TakeWriters returns the task's ends of the pipes. The caller closes them once the task has its copies: a stream
// ends with its last writer.
func (c *Collector) TakeWriters() (stdout, stderr *os.File) {
	stdout, stderr = c.stdout.task, c.stderr.task
	c.stdout.task, c.stderr.task = nil, nil
	return stdout, stderr
}

// Run writes until both streams have ended. ctx ends with the task: the content of the pipes is still written, for at
// most two seconds.
func (c *Collector) Run(ctx context.Context) {
	hard, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	stop := context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(drainLimit, func() { giveUp(errDrainLimit) })
		defer limit.Stop()
		c.wake()
		<-hard.Done()
	})
	defer stop()
	var reading sync.WaitGroup
	reading.Go(func() { c.stderr.run(ctx, hard) })
	c.stdout.run(ctx, hard)
	reading.Wait()
}

// wake ends blocked reads.
func (c *Collector) wake() {
	for _, s := range []*stream{c.stdout, c.stderr} {
		// A pipe that is closed needs no waking.
		_ = s.pipe.SetReadDeadline(time.Unix(1, 0)) // as said
	}
}

// Dropped returns how many bytes were lost, after Run.
func (c *Collector) Dropped() int64 { return c.stdout.dropped + c.stderr.dropped }

// Close closes pipes and files, after Run or instead of it.
func (c *Collector) Close() error {
	return errors.Join(c.stdout.close(), c.stderr.close(), c.folder.close())
}
