// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/executor/logs"
	"github.com/tachograph/tacho/executor/proto"
)

// streams are standard streams on their way into the fork.
type streams struct {
	// task holds the descriptors of the new process, by their number there: 0, 1, 2, and what its caller adds.
	task     []uintptr
	terminal bool
	// shared terminals belong to the executor's session, and the task is the foreground group in it. A task that led a
	// session of its own could not be stopped by a key: the kernel stops no group without a parent in its session.
	shared bool
	// files are the executor's copies, closed once the new process has its own.
	files []*os.File
	// logs reads the other ends, where the output goes to log files.
	logs *logs.Collector
}

// openStdio makes the task's streams as the request says. If the output goes to log files, tell gets their events.
func openStdio(stdio *proto.Stdio, credential *syscall.Credential, report logs.Report) (*streams, error) {
	s := &streams{}
	var err error
	switch stdio.GetMode() {
	case proto.Stdio_MODE_UNSPECIFIED, proto.Stdio_MODE_NULL:
		err = s.openPaths("", "", "")
	case proto.Stdio_MODE_DESCRIPTORS:
		err = s.inherit(stdio)
	case proto.Stdio_MODE_TERMINAL:
		s.terminal, s.shared = true, true
		if err = s.inherit(stdio); err == nil {
			err = errors.Join(giveTo(credential, s.terminals()...), control(s.files[0]))
		}
	case proto.Stdio_MODE_PATHS:
		err = s.openPaths(stdio.GetStdinPath(), stdio.GetStdoutPath(), stdio.GetStderrPath())
	case proto.Stdio_MODE_LOGS:
		err = s.openLogs(stdio, credential, report)
	default:
		err = fmt.Errorf("standard streams: unknown mode %d", stdio.GetMode())
	}
	if err == nil {
		err = s.addOthers(stdio.GetDescriptors())
	}
	if err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// control makes a terminal the controlling one of the executor's session, which has none yet, ioctl_tty(2).
func control(terminal *os.File) error {
	if err := unix.IoctlSetInt(int(terminal.Fd()), unix.TIOCSCTTY, 0); err != nil {
		return fmt.Errorf("standard streams: set the controlling terminal: %w", err)
	}
	return nil
}

// terminals are the streams of a task on a terminal that are one. The caller made them for it.
func (s *streams) terminals() []*os.File {
	return slices.DeleteFunc(slices.Clone(s.files), func(f *os.File) bool {
		_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		return err != nil
	})
}

func (s *streams) add(f *os.File) {
	s.files = append(s.files, f)
	s.task = append(s.task, f.Fd())
}

// inherit takes descriptors that the caller left in this process.
func (s *streams) inherit(stdio *proto.Stdio) error {
	given := []uint32{stdio.GetStdinFd(), stdio.GetStdoutFd(), stdio.GetStderrFd()}
	for _, fd := range given {
		// Several streams may share one descriptor; each gets a copy of its own, so that all can be closed.
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return fmt.Errorf("standard streams: descriptor %d: %w", fd, err)
		}
		s.files = append(s.files, os.NewFile(uintptr(copied), fmt.Sprintf("descriptor %d", fd)))
		s.task = append(s.task, uintptr(copied))
	}
	slices.Sort(given)
	for _, fd := range slices.Compact(given) { // once: the number can be that of another file right after
		if fd > 2 {
			_ = unix.Close(int(fd)) // of what was copied
		}
	}
	return nil
}

// addOthers takes the descriptors above 2 that the caller left in this process.
func (s *streams) addOthers(descriptors []*proto.Descriptor) error {
	const (
		most   = 1 << 20     // fs.nr_open, as the kernel has it
		closed = ^uintptr(0) // what syscall.ProcAttr closes
	)
	for _, d := range descriptors {
		fd, number := uintptr(d.GetFd()), int(d.GetNumber())
		if _, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || number <= 2 || number > most {
			return fmt.Errorf("descriptor %d as %d: %w", fd, number, cmp.Or(err, error(unix.EBADF)))
		}
		s.files = append(s.files, os.NewFile(fd, fmt.Sprintf("descriptor %d", number)))
		for len(s.task) <= number {
			s.task = append(s.task, closed)
		}
		s.task[number] = fd
	}
	return nil
}

// openPaths opens files or FIFOs; an empty path is /dev/null.
func (s *streams) openPaths(stdin, stdout, stderr string) error {
	for i, path := range []string{stdin, stdout, stderr} {
		open := openOutput
		if i == 0 {
			open = openInput
		}
		f, err := open(path)
		if err != nil {
			return fmt.Errorf("standard streams: %w", err)
		}
		s.add(f)
	}
	return nil
}

// openLogs makes pipes that are read into log files.
func (s *streams) openLogs(stdio *proto.Stdio, credential *syscall.Credential, report logs.Report) error {
	stdin, err := openInput(stdio.GetStdinPath())
	if err != nil {
		return fmt.Errorf("standard streams: %w", err)
	}
	s.add(stdin)
	o := stdio.GetLogs()
	s.logs, err = logs.Open(logs.Options{
		Dir: o.GetDir(), Prefix: o.GetPrefix(), MaxFileBytes: o.GetMaxFileBytes(), MaxFiles: int(o.GetMaxFiles()),
		DropOnFull: o.GetDropOnFull(), Report: report,
	})
	if err != nil {
		return fmt.Errorf("standard streams: %w", err)
	}
	stdout, stderr := s.logs.TakeWriters()
	s.add(stdout)
	s.add(stderr)
	return giveTo(credential, stdout, stderr)
}

// giveTo makes a user the owner of their streams, pipes or terminals: without that /dev/stdout and /dev/tty cannot be
// opened, because they belong to their creators.
func giveTo(credential *syscall.Credential, files ...*os.File) error {
	if credential == nil {
		return nil
	}
	for _, f := range files {
		if err := f.Chown(int(credential.Uid), -1); err != nil { // a terminal keeps its group, which is tty
			return fmt.Errorf("standard streams: %w", err)
		}
	}
	return nil
}

// started closes the executor's copies: a pipe whose writer ended must come to its end.
func (s *streams) started() {
	for _, f := range s.files {
		_ = f.Close() // the task has its own copy; nothing was written through this one
	}
	s.files = nil
}

// abandon closes everything, for a task that is not started.
func (s *streams) abandon() error {
	s.started()
	if s.logs == nil {
		return nil
	}
	return s.logs.Close()
}

// openInput opens what is read from; an empty path is /dev/null. A FIFO is opened for both directions: that does not
// wait for a writer, fifo(7).
func openInput(path string) (*os.File, error) {
	path = cmp.Or(path, os.DevNull)
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return os.Open(path)
	}
	// As a plain descriptor: os.OpenFile would make it non-blocking, and the task would inherit that.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openOutput opens what is written to, or makes a file; an empty path is /dev/null.
//
// Parents of the folder are the caller's. The folder itself may belong to the task's user, who is not ours: neither it
// nor what is in it may be a symbolic link, or another name of a file elsewhere.
func openOutput(path string) (*os.File, error) {
	path = cmp.Or(path, os.DevNull)
	fd, err := openOutputFD(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func openOutputFD(path string) (fd int, err error) {
	name := filepath.Base(path)
	folder, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("its directory: %w", err)
	}
	defer unix.Close(folder)
	fd, err = openExisting(folder, name)
	if errors.Is(err, unix.ENOENT) {
		const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
		fd, err = unix.Openat(folder, name, flags, 0o600)
	}
	return fd, err
}

// openExisting looks at a file first, by a descriptor that does not open it: opening can change a device, and wait for
// the other end of a FIFO.
func openExisting(folder int, name string) (fd int, err error) {
	held, err := unix.Openat(folder, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(held)
	var stat unix.Stat_t
	if err := unix.Fstat(held, &stat); err != nil {
		return -1, err
	}
	flags, ok := outputFlags(&stat)
	if !ok {
		return -1, errNoOutput
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", held), flags|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// errNoOutput says that output cannot go to what is there.
var errNoOutput = errors.New("neither a FIFO nor a regular file with one link nor /dev/null")

// outputFlags are how a file is opened for output. A FIFO is opened for both directions: that neither waits for a
// reader nor ends the task with SIGPIPE when the reader is replaced, fifo(7).
func outputFlags(stat *unix.Stat_t) (flags int, ok bool) {
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return unix.O_RDWR, true
	case unix.S_IFREG:
		return unix.O_WRONLY | unix.O_APPEND, stat.Nlink == 1
	case unix.S_IFCHR:
		const major, minor = 1, 3 // null(4)
		return unix.O_WRONLY, stat.Rdev == unix.Mkdev(major, minor)
	}
	return 0, false
}
