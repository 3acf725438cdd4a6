// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// folder is the log folder, held by a descriptor: files are made in it even if its path leads elsewhere later.
type folder struct {
	path string
	dir  *os.File
}

// errRefused says that a file by the name of a log file is not a log file.
var errRefused = errors.New("not a regular file with one link")

// openFolder opens the log folder. Its parents are the host's, but the task may replace the folder itself, so a
// symbolic link is rejected.
func openFolder(path string) (*folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open log directory: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	return &folder{path: path, dir: os.NewFile(uintptr(fd), path)}, nil
}

// create makes a new file for appending.
func (f *folder) create(name string) (*os.File, error) {
	const mode = 0o644 // readable for those who can enter the folder, as the task and what ships its logs may
	return f.open(name, unix.O_CREAT|unix.O_EXCL, mode)
}

// append opens an existing file for appending. The error wraps errRefused if it is not a log file.
func (f *folder) append(name string) (file *os.File, size int64, err error) {
	// O_NONBLOCK: a FIFO, which is refused below, would make open(2) wait for its reader.
	file, err = f.open(name, unix.O_NONBLOCK, 0)
	if err != nil {
		if isRefusal(err) {
			err = fmt.Errorf("%w: %w", errRefused, err)
		}
		return nil, 0, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, 0, errors.Join(&os.PathError{Op: "stat", Path: file.Name(), Err: err}, file.Close())
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 {
		return nil, 0, errors.Join(fmt.Errorf("open %s: %w", file.Name(), errRefused), file.Close())
	}
	return file, stat.Size, nil
}

// isRefusal reports whether open(2) failed because a name is not a file of ours: a symbolic link, a socket or FIFO, a
// device, a folder, a running program, a file of another user.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{
		unix.ELOOP, unix.ENXIO, unix.ENODEV, unix.EISDIR, unix.ETXTBSY, unix.EACCES, unix.EPERM,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}

func (f *folder) open(name string, flags int, mode uint32) (*os.File, error) {
	flags |= unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC
	path := f.path + "/" + name
	fd, err := unix.Openat(int(f.dir.Fd()), name, flags, mode)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// remove deletes a file. It ignores a missing file and a folder of that name.
func (f *folder) remove(name string) error {
	err := unix.Unlinkat(int(f.dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EISDIR) {
		return nil
	}
	return &os.PathError{Op: "unlink", Path: f.path + "/" + name, Err: err}
}

// each visits the names in the folder, a few at a time: the task can make any number of files there.
func (f *folder) each(visit func(name string)) error {
	const atOnce = 128
	if _, err := f.dir.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("list log directory: %w", err)
	}
	for {
		names, err := f.dir.Readdirnames(atOnce)
		for _, name := range names {
			visit(name)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list log directory: %w", err)
		}
	}
}

func (f *folder) close() error { return f.dir.Close() }
