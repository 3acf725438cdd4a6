// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// keptFileSize is the smallest buffer that is asked for: a page, which holds nearly every kernel file.
const keptFileSize = 4096

// File is a kernel file (procfs, cgroupfs) that is opened once and read from its start again and again. It is a
// bare descriptor and not an os.File: that would put cgroup files, which can be polled, into the runtime's poller
// and wake this process at each of their events. The zero File is closed.
type File struct {
	number int // the descriptor plus one
}

// Open opens the file at path for reading. The error is an *fs.PathError around the errno.
func Open(path string) (File, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return File{}, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return File{number: fd + 1}, nil
	}
}

// Dup duplicates the descriptor of a file; the file itself stays its owner's.
func Dup(file *os.File) (File, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return File{}, err
	}
	fd := -1
	controlErr := raw.Control(func(number uintptr) { fd, err = unix.FcntlInt(number, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(controlErr, err); err != nil {
		return File{}, fmt.Errorf("duplicate %s: %w", file.Name(), err)
	}
	return File{number: fd + 1}, nil
}

// IsOpen reports whether there is something to read.
func (f *File) IsOpen() bool { return f.number != 0 }

// Read returns the whole file as it is now, in buf's memory where it is large enough; hand the result back as the
// next buf. The error is the bare errno (the caller knows the name): ENODEV for a removed cgroup, ESRCH for a
// process that is gone, see Gone; EOPNOTSUPP for pressure files that are switched off.
func (f *File) Read(buf []byte) ([]byte, error) { return f.readFrom(buf, false) }

// ReadRecord is Read for files that the kernel writes in one piece (all of a cgroup's but cgroup.procs and its like;
// /proc/PID/stat, statm, io): it saves the second system call, which would only find the end.
func (f *File) ReadRecord(buf []byte) ([]byte, error) { return f.readFrom(buf, true) }

// ReadHead returns the first bytes of a file, at most size, as Read does. They are read by one system call.
func (f *File) ReadHead(buf []byte, size int) ([]byte, error) {
	if !f.IsOpen() {
		return buf[:0], fs.ErrClosed
	}
	buf = slices.Grow(buf[:0], size)
	for {
		n, err := unix.Pread(f.number-1, buf[:size], 0)
		if !errors.Is(err, unix.EINTR) {
			return buf[:max(n, 0)], err
		}
	}
}

func (f *File) readFrom(buf []byte, oneRecord bool) ([]byte, error) {
	if !f.IsOpen() {
		return buf[:0], fs.ErrClosed
	}
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(keptFileSize, cap(buf)))
		}
		room := buf[len(buf):cap(buf)]
		n, err := unix.Pread(f.number-1, room, int64(len(buf)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return buf[:0], err
		}
		buf = buf[:len(buf)+n]
		if n == 0 || oneRecord && n < len(room) {
			return buf, nil
		}
	}
}

// FD returns the descriptor, for calls on it; -1 where the file is closed.
func (f *File) FD() int { return f.number - 1 }

// Close gives the descriptor up; closing twice is allowed.
func (f *File) Close() error {
	if !f.IsOpen() {
		return nil
	}
	fd := f.number - 1
	f.number = 0
	return unix.Close(fd)
}
