// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
