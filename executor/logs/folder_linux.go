// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// folder is the log folder, held by a descriptor.
type folder struct {
	path string
	mu   sync.Mutex // guards dir, which both streams use
	dir  *os.File
}

// errRefused says that a file by the name of a log file is not a log file.
var errRefused = errors.New("not a regular file with one link")

// errRemoved says that a log file was removed, or a directory above it.
var errRemoved = errors.New("it was removed or replaced while the task ran")

// openFolder opens the log folder. Its parents are the host's, but the task may replace the folder itself, so a
// symbolic link is rejected.
func openFolder(path string) (*folder, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open log directory: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	return &folder{path: path, dir: os.NewFile(uintptr(fd), path)}, nil
}

// again makes the folder again, with the owner and the mode that it had, or takes the one that is there now, if its
// path does not lead to it any more. It does not follow a link in its place.
func (f *folder) again() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var held, there unix.Stat_t
	if err := unix.Fstat(int(f.dir.Fd()), &held); err != nil {
		return fmt.Errorf("stat log directory: %w", err)
	}
	if leadsTo(f.path, &held, &there) {
		return nil
	}
	const passing = 0o711 // as the parents of log directories have it
	if err := os.MkdirAll(filepath.Dir(f.path), passing); err != nil {
		return fmt.Errorf("make log directory again: %w", err)
	}
	err := unix.Mkdir(f.path, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make log directory again: %w", &os.PathError{Op: "mkdir", Path: f.path, Err: err})
	}
	made := err == nil
	fresh, err := openFolder(f.path)
	if err != nil {
		return err
	}
	if made {
		err = errors.Join(fresh.dir.Chown(int(held.Uid), int(held.Gid)), fresh.dir.Chmod(os.FileMode(held.Mode&0o777)))
	}
	err = errors.Join(err, f.dir.Close())
	f.dir = fresh.dir
	return err
}

// leadsTo reports whether a path leads to a file, and not over a link.
func leadsTo(path string, file, there *unix.Stat_t) bool {
	return unix.Lstat(path, there) == nil && there.Dev == file.Dev && there.Ino == file.Ino
}

// create makes a new file for appending.
func (f *folder) create(name string) (*os.File, error) {
	const mode = 0o644 // readable for those who can enter the folder, as the task and what ships its logs may
	file, err := f.open(name, unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(mode); err != nil { // whatever the umask says
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
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
	f.mu.Lock()
	defer f.mu.Unlock()
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
	f.mu.Lock()
	defer f.mu.Unlock()
	err := unix.Unlinkat(int(f.dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EISDIR) {
		return nil
	}
	return &os.PathError{Op: "unlink", Path: f.path + "/" + name, Err: err}
}

// each visits the names in the folder, a few at a time: the task can make any number of files there.
func (f *folder) each(visit func(name string)) error {
	const atOnce = 128
	f.mu.Lock()
	dir := f.dir
	f.mu.Unlock()
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("list log directory: %w", err)
	}
	for {
		names, err := dir.Readdirnames(atOnce)
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
