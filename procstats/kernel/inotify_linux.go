// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Writes tells which folders had a file written, inotify(7): settings of a cgroup that were not written are what
// they were. It sees writes by system calls of any process, and not what the kernel changes by itself. It is used
// by one goroutine at a time.
type Writes struct {
	fd      int
	folders map[int32]*WrittenFolder
	buf     [4096]byte
}

// WrittenFolder is a folder that is watched.
type WrittenFolder struct {
	watch int32
	// Written is set when a file in the folder was written. Its user resets it. The end of a cgroup is not told.
	Written bool
}

// OpenWrites opens a watch of no folder. The error wraps EMFILE where the user has no instance left
// (/proc/sys/fs/inotify/max_user_instances).
func OpenWrites() (*Writes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify_init1: %w", err)
	}
	return &Writes{fd: fd, folders: make(map[int32]*WrittenFolder)}, nil
}

// Watch adds a folder. The error wraps ENOSPC where the user has no watch left
// (/proc/sys/fs/inotify/max_user_watches), and EEXIST where the folder is watched already.
func (w *Writes) Watch(dir string) (*WrittenFolder, error) {
	number, err := unix.InotifyAddWatch(w.fd, dir, unix.IN_MODIFY|unix.IN_ONLYDIR|unix.IN_MASK_CREATE)
	if err != nil {
		return nil, &os.PathError{Op: "inotify_add_watch", Path: dir, Err: err}
	}
	f := &WrittenFolder{watch: int32(number)} //nolint:gosec // the kernel's own is an int
	w.folders[f.watch] = f
	return f, nil
}

// Leave removes a folder.
func (w *Writes) Leave(f *WrittenFolder) {
	delete(w.folders, f.watch)
	// EINVAL says that the kernel has ended the watch. It gives the numbers in turn: another folder has not got this one.
	_, _ = unix.InotifyRmWatch(w.fd, uint32(f.watch)) //nolint:gosec // the kernel's number
}

// Look marks the folders in which a file was written since the last look. If that cannot be known all are marked.
func (w *Writes) Look() {
	for {
		n, err := unix.Read(w.fd, w.buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n <= 0:
			w.markAll()
			return
		}
		w.mark(w.buf[:n])
	}
}

// mark reads events: struct inotify_event, with a name behind it.
func (w *Writes) mark(events []byte) {
	for len(events) >= unix.SizeofInotifyEvent {
		watch := int32(binary.NativeEndian.Uint32(events)) //nolint:gosec // an int of the kernel
		mask, length := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
		if mask&unix.IN_Q_OVERFLOW != 0 {
			w.markAll()
		}
		if f := w.folders[watch]; f != nil {
			f.Written = true
		}
		if mask&unix.IN_IGNORED != 0 {
			delete(w.folders, watch)
		}
		events = events[min(uint64(len(events)), unix.SizeofInotifyEvent+uint64(length)):]
	}
}

func (w *Writes) markAll() {
	for _, f := range w.folders {
		f.Written = true
	}
}

// Close ends all watches.
func (w *Writes) Close() error { return unix.Close(w.fd) }
