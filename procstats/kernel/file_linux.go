// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

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
	f, err := OpenAt(unix.AT_FDCWD, append([]byte(path), 0), 0)
	if err != nil {
		return File{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

// OpenAt opens a path that ends in NUL, below a folder. Open makes a copy of the path and an error: too much for the
// thousands of files that are opened and closed in every sample of a large task.
func OpenAt(dir int, path []byte, flags int) (File, error) {
	flags |= unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOCTTY
	for {
		fd, _, errno := unix.Syscall6(
			unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0, 0, 0)
		switch errno {
		case 0:
			return File{number: int(fd) + 1}, nil
		case unix.EINTR:
		default:
			return File{}, errno
		}
	}
}

// OpenIn opens a file of a folder. The path is made in buf, whose contents are lost: nothing is allocated for it.
func OpenIn(dir, name string, buf []byte) (File, error) {
	path := append(append(append(append(buf[:0], dir...), '/'), name...), 0)
	return OpenAt(unix.AT_FDCWD, path, 0)
}

// Dup duplicates the descriptor of a file; the file itself stays its owner's.
func Dup(file *os.File) (File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	runtime.KeepAlive(file)
	if err != nil {
		return File{}, fmt.Errorf("duplicate %s: %w", file.Name(), err)
	}
	return File{number: fd + 1}, nil
}

// IsOpen reports whether there is something to read.
func (f *File) IsOpen() bool { return f.number != 0 }

// FD returns the descriptor, for calls on it; -1 where the file is closed.
func (f *File) FD() int { return f.number - 1 }

// Close gives the descriptor up; closing twice is allowed.
func (f *File) Close() error {
	if !f.IsOpen() {
		return nil
	}
	fd := f.FD()
	f.number = 0
	return unix.Close(fd)
}

// Read returns the whole file as it is now, in buf's memory where it is large enough; hand the result back as the
// next buf. The error is the bare errno (the caller knows the name): ENODEV for a removed cgroup, ESRCH for a
// process that is gone, see Gone; EOPNOTSUPP for pressure files that are switched off.
func (f *File) Read(buf []byte) ([]byte, error) { return f.readFrom(buf, false) }

// ReadRecord is Read for files that the kernel writes in one piece (all of a cgroup's but cgroup.procs and its like;
// /proc/PID/stat, statm, io): it saves the second system call, which would only find the end.
func (f *File) ReadRecord(buf []byte) ([]byte, error) { return f.readFrom(buf, true) }

// ReadHead returns the first bytes of a file, at most size, as Read does. They are read by one system call.
func (f *File) ReadHead(buf []byte, size int) ([]byte, error) {
	buf = slices.Grow(buf[:0], size)
	n, err := f.pread(buf[:size], 0)
	return buf[:n], err
}

// ReadNow is ReadRecord for a file of less than a page whose reading cannot sleep: the scheduler is not notified of the
// system call, which costs a tenth of it.
func (f *File) ReadNow(buf []byte) ([]byte, error) {
	if cap(buf) < keptFileSize {
		buf = make([]byte, keptFileSize)
	}
	buf = buf[:keptFileSize]
	n, _, errno := unix.RawSyscall6(
		unix.SYS_PREAD64, uintptr(f.FD()), uintptr(unsafe.Pointer(&buf[0])), keptFileSize, 0, 0, 0)
	if errno != 0 {
		return buf[:0], errno
	}
	return buf[:n], nil
}

func (f *File) readFrom(buf []byte, oneRecord bool) ([]byte, error) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, max(keptFileSize, cap(buf)))
		}
		room := buf[len(buf):cap(buf)]
		n, err := f.pread(room, len(buf))
		if err != nil {
			return buf[:0], err
		}
		buf = buf[:len(buf)+n]
		if n == 0 || oneRecord && n < len(room) {
			return buf, nil
		}
	}
}

func (f *File) pread(room []byte, at int) (int, error) {
	if !f.IsOpen() {
		return 0, fs.ErrClosed
	}
	for {
		n, err := unix.Pread(f.FD(), room, int64(at))
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// ReadOnce opens, reads and closes a file below a folder; its path ends in NUL.
func ReadOnce(dir int, path, buf []byte) ([]byte, error) {
	f, err := OpenAt(dir, path, 0)
	if err != nil {
		return buf[:0], err
	}
	data, err := f.Read(buf)
	return data, errors.Join(err, f.Close())
}

// WriteFile writes a kernel file in one piece. It is not [os.WriteFile] for the reason that File is no os.File: each
// write would wake the runtime's poller, which took as long as the write.
func WriteFile(path, text string) error {
	return os.NewSyscallError("write "+path, Retried(func() error {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(text))
			_ = unix.Close(fd) // the kernel took the text, or said why not
		}
		return err
	}))
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

// ownRelease is the release of the running kernel, uname(2); empty if it does not say.
func ownRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// FileLimit is how many files this process may have open, RLIMIT_NOFILE; 0 if the kernel does not say.
func FileLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30)) //nolint:gosec // bounded
}

// CheckFileLimit returns an error with the remedy if this process may have fewer files open than what needs them does.
func CheckFileLimit(what string, need int) error {
	if limit := FileLimit(); limit > 0 && limit < need {
		return fmt.Errorf("the limit of open files is %d, and %s needs %d; raise it with ulimit -n %d, "+
			"or LimitNOFILE= in a unit", limit, what, need, max(1024, need))
	}
	return nil
}

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
