// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

// diskWalk is a walk that can be left at any entry and taken up again. It never goes by a path that a symbolic link
// could lead elsewhere, for the task may change its folder meanwhile.
type diskWalk struct {
	sums   diskSums
	root   *os.File
	device uint64
	// seen has every folder and every file with several names.
	seen map[inode]struct{}
	// pending are the folders still to be read, relative to the root, the deepest last.
	pending []string
	// room is how many bytes more may be remembered: the task chooses how many folders and names there are.
	room int
	// current is the folder that is being read, at path.
	current *os.File
	path    string
}

// errTooManyNames ends a walk that has no room left.
var errTooManyNames = errors.New("too many directories, or files with several names, to remember")

func startDiskWalk(dir string) (*diskWalk, error) {
	root, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the operation and the file
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &stat); err != nil {
		return nil, errors.Join(&os.PathError{Op: "fstat", Path: dir, Err: err}, root.Close())
	}
	w := &diskWalk{root: root, device: uint64(stat.Dev), seen: make(map[inode]struct{}), room: maxDiskHeld}
	w.push(".")
	return w, nil
}

func (w *diskWalk) push(path string) {
	w.pending = append(w.pending, path)
	w.room -= inodeSize + len(path)
}

func (w *diskWalk) pop() (path string) {
	last := len(w.pending) - 1
	path, w.pending[last] = w.pending[last], ""
	w.pending = w.pending[:last]
	w.room += inodeSize + len(path)
	return path
}

// step looks at a few more entries and reports whether anything is left.
func (w *diskWalk) step() (more bool) {
	if w.current == nil {
		if len(w.pending) == 0 {
			return false
		}
		w.path = w.pop()
		w.enter()
		return true
	}
	names, err := w.current.Readdirnames(diskChunk)
	for _, name := range names {
		w.look(name)
	}
	if w.room < 0 {
		w.fail("walk", errTooManyNames)
		return false
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			w.fail("read", err)
		}
		if err := w.current.Close(); err != nil {
			w.fail("close", err)
		}
		w.current = nil
	}
	return true
}

// enter opens the next folder, from the root and name by name, and counts it, unless it is a mount of its own, on
// another file system, or was read already, as one that was moved meanwhile.
func (w *diskWalk) enter() {
	folder, err := w.openFolder(w.path)
	switch {
	case kernel.Gone(err), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return // it was removed, replaced by a link, or mounted on, perhaps meanwhile
	case err != nil:
		w.fail("open", err)
		return
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &stat); err != nil {
		w.fail("fstat", err)
		_ = folder.Close()
		return
	}
	if uint64(stat.Dev) != w.device || w.again(&stat) {
		_ = folder.Close()
		return
	}
	w.sums.bytes += stat.Blocks * blockSize
	if w.path != "." {
		w.sums.files++
	}
	w.current = folder
}

// blockSize is the unit of st_blocks, whatever the file system's own blocks are.
const blockSize = 512

func (w *diskWalk) openFolder(path string) (*os.File, error) {
	at := int(w.root.Fd())
	for name := range strings.SplitSeq(path, "/") {
		fd, err := kernel.OpenFolder(at, name)
		if errors.Is(err, errors.ErrUnsupported) { // not Linux: file systems are told apart by their devices
			fd, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if at != int(w.root.Fd()) {
			_ = unix.Close(at)
		}
		if err != nil {
			return nil, err
		}
		at = fd
	}
	return os.NewFile(uintptr(at), path), nil
}

// look counts one entry of the current folder; folders are counted when they are entered.
func (w *diskWalk) look(name string) {
	var stat unix.Stat_t
	if err := unix.Fstatat(int(w.current.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if !kernel.Gone(err) {
			w.fail("fstatat", err)
		}
		return
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		path := name
		if w.path != "." {
			path = w.path + "/" + name
		}
		if strings.Count(path, "/") >= maxDiskDepth {
			w.fail("open", fmt.Errorf("nested more than %d deep", maxDiskDepth))
			return
		}
		w.push(path)
		return
	}
	if stat.Nlink < 2 || !w.again(&stat) {
		w.sums.files++
		w.sums.bytes += stat.Blocks * blockSize
	}
}

// again reports whether an inode was seen before in this walk.
func (w *diskWalk) again(stat *unix.Stat_t) bool {
	key := inode{device: uint64(stat.Dev), number: stat.Ino}
	_, found := w.seen[key]
	if !found {
		w.seen[key] = struct{}{}
		w.room -= inodeSize
	}
	return found
}

// fail notes what could not be counted: the sums are not the folder's then.
func (w *diskWalk) fail(op string, err error) {
	if w.sums.unread++; w.sums.unread == 1 {
		w.sums.reason = diskReason(op, err)
	}
}

func (w *diskWalk) close() error {
	err := w.root.Close()
	if w.current != nil {
		err = errors.Join(err, w.current.Close())
	}
	return err
}
