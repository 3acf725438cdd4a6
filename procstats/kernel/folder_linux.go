// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenFolder opens a directory that is an entry of another one, at, for reading. It follows no link, and it never
// leaves the mount: the error is EXDEV where something is mounted on the entry, be it of the same file system, and
// nothing of what is mounted there is asked anything. See openat2(2).
func OpenFolder(at int, name string) (int, error) {
	fd, err := openFolder(at, name, unix.O_RDONLY)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fd, err
	}
	return openFolderByMount(at, name) // before Linux 5.6, or where a seccomp filter does not know the call
}

// OpenFolderPath is OpenFolder for a directory that may not be read: the descriptor is good for its permissions.
func OpenFolderPath(at int, name string) (int, error) { return openFolder(at, name, unix.O_PATH) }

func openFolder(at int, name string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	err = Retried(func() (err error) { // EAGAIN: something was renamed meanwhile
		fd, err = unix.Openat2(at, name, &how)
		return err
	})
	return fd, err
}

// Retried calls a function again while a system call in it was interrupted, or could not be certain.
func Retried(call func() error) (err error) {
	for range 1000 {
		if err = call(); !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return err
}

// MountID returns the mount that an entry of an open directory lies on, without following it if it is a link; with an
// empty name that of the open file itself, without a file that of a path. ok is false before Linux 5.8.
func MountID(at *os.File, name string) (id uint64, ok bool) {
	fd, flags := unix.AT_FDCWD, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT
	if at != nil {
		fd = int(at.Fd())
	}
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var stat unix.Statx_t
	err := unix.Statx(fd, name, flags, unix.STATX_MNT_ID, &stat)
	return stat.Mnt_id, err == nil && stat.Mask&unix.STATX_MNT_ID != 0
}

// openFolderByMount compares the mount ids of both directories, which the kernel tells since Linux 3.15: proc(5).
func openFolderByMount(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	above, err := mountID(at)
	if err != nil {
		return -1, err
	}
	own, err := mountID(fd)
	if err != nil {
		return -1, err
	}
	if own != above {
		return -1, unix.EXDEV
	}
	return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func mountID(fd int) (string, error) {
	path := filepath.Join(HostFS().Proc, "self", "fdinfo", strconv.Itoa(fd))
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("%s: no mnt_id", path)
}
