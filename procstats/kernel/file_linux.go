// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenAt opens a path that ends in NUL. Open would make a string, a copy and an error of it: too much for the
// thousands of files that are opened and closed in every sample of a large task.
func OpenAt(dir int, path []byte, flags int) (File, error) {
	flags |= unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOCTTY
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0, 0, 0)
		switch errno {
		case 0:
			return File{number: int(fd) + 1}, nil
		case unix.EINTR:
		default:
			return File{}, errno
		}
	}
}

// Links returns the number of links of the file at a path that ends in NUL.
func Links(path []byte) (uint32, error) {
	var status unix.Statx_t
	at := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&path[0])), 0,
		unix.STATX_NLINK, uintptr(unsafe.Pointer(&status)), 0)
	if errno != 0 {
		return 0, errno
	}
	return status.Nlink, nil
}

// OpenIn opens a file of a folder. The path is made in buf, whose contents are lost: nothing is allocated for it.
func OpenIn(dir, name string, buf []byte) (File, error) {
	path := append(append(append(append(buf[:0], dir...), '/'), name...), 0)
	return OpenAt(unix.AT_FDCWD, path, 0)
}

// ReadNow is ReadRecord for a file of less than a page whose reading cannot sleep: the scheduler is not notified of the
// system call, which costs a tenth of it.
func (f *File) ReadNow(buf []byte) ([]byte, error) {
	if cap(buf) < keptFileSize {
		buf = make([]byte, keptFileSize)
	}
	buf = buf[:keptFileSize]
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(f.FD()), uintptr(unsafe.Pointer(&buf[0])), keptFileSize, 0, 0, 0)
	if errno != 0 {
		return buf[:0], errno
	}
	return buf[:n], nil
}

// readOnce opens, reads and closes a file; its path ends in NUL.
func readOnce(path, buf []byte) ([]byte, error) {
	f, err := OpenAt(unix.AT_FDCWD, path, 0)
	if err != nil {
		return buf[:0], err
	}
	data, err := f.Read(buf)
	return data, errors.Join(err, f.Close())
}

// AppendNumbers appends the numeric names in an open folder (PIDs in /proc, TIDs in /proc/PID/task), read from its
// start. dirents is memory for the entries, at least of a page.
func (f *File) AppendNumbers(numbers []int, dirents []byte) ([]int, error) {
	if _, err := unix.Seek(f.FD(), 0, 0); err != nil {
		return numbers, err
	}
	for {
		n, err := unix.Getdents(f.FD(), dirents)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			return numbers, err
		}
		numbers = appendNumericNames(numbers, dirents[:n])
	}
}
