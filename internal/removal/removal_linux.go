// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package removal

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tachograph/tacho/procstats/kernel"
)

const (
	// deepest is how many directories are open at once: those below are moved up to the first one.
	deepest = 32
	// chunk is how many names are read at once.
	chunk = 512
	// mostPasses bounds how often a directory is read again that somebody goes on writing to.
	mostPasses = 64
)

// All removes a directory, or another file, with all below it. It follows no link and never leaves the mount that the
// parent of path is on. Of what cannot be removed it leaves no more than it must, and returns [*Remains]. A path that
// does not exist is no error. When ctx is done it stops with its error. Entries of a directory that are last stay while
// anything else does: by them it is found again.
func All(ctx context.Context, path string, last ...string) error {
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	r := &remover{ctx: ctx, last: last, left: Remains{Path: path}, prefix: ".removal-" + rand.Text() + "-"}
	r.entry(parent, filepath.Base(path), "", 0)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if r.left.Count() > 0 {
		return &r.left
	}
	return nil
}

type remover struct {
	ctx  context.Context
	left Remains
	// top is the directory that is removed. moved are the names there of directories that were moved from far below and
	// are still to be removed; each begins with prefix, which no task can know.
	top    *os.File
	moved  []string
	prefix string
	moves  int
	last   []string
}

// entry removes one entry of a directory and reports whether it is gone. path is relative to the top.
func (r *remover) entry(dir *os.File, name, path string, depth int) (gone bool) {
	err := r.unlink(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) { // POSIX and some file systems have EPERM
		if err2 := r.unlink(dir, name, unix.AT_REMOVEDIR); !errors.Is(err2, unix.ENOTDIR) {
			err = err2
		}
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return r.folder(dir, name, path, depth)
	}
	return r.done(path, err)
}

// done reports whether err says that an entry is gone, and remembers the entry otherwise.
func (r *remover) done(path string, err error) (gone bool) {
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return true
	case errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV):
		err = ErrMounted
	case errors.Is(err, unix.EPERM) && os.Geteuid() == 0:
		err = ErrImmutable
	}
	r.left.add(path, err)
	return false
}

// unlink removes an entry, or an empty directory. In a directory of ours it takes the permission that it lacks.
func (r *remover) unlink(dir *os.File, name string, flags int) error {
	call := func() error { return unix.Unlinkat(int(dir.Fd()), name, flags) }
	err := kernel.Retried(call)
	if errors.Is(err, unix.EACCES) && r.top != nil && dir.Chmod(0o700) == nil {
		err = kernel.Retried(call)
	}
	return err
}

// folder removes a directory that is not empty.
func (r *remover) folder(dir *os.File, name, path string, depth int) (gone bool) {
	if depth == deepest {
		return r.move(dir, name, path)
	}
	fd, err := r.open(dir, name)
	if err != nil {
		return r.done(path, err)
	}
	folder := os.NewFile(uintptr(fd), path)
	defer folder.Close()
	r.top = cmp.Or(r.top, folder)
	for range mostPasses {
		empty, err := r.contents(folder, path, depth)
		if err != nil {
			r.left.add(path, err)
			return false
		}
		if !empty {
			return false // what is left of it is named
		}
		if err = r.unlink(dir, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return r.done(path, err)
		}
	}
	r.left.add(path, ErrWritten)
	return false
}

// open opens a directory on the same mount. One of ours that may not be read is given the permission.
func (r *remover) open(dir *os.File, name string) (fd int, err error) {
	at := int(dir.Fd())
	if fd, err = kernel.OpenFolder(at, name); !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	closed, pathErr := kernel.OpenFolderPath(at, name)
	if pathErr != nil {
		return -1, err
	}
	defer unix.Close(closed)
	// fchmod(2) refuses such a descriptor; the link leads to the very directory.
	if unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", closed), 0o700) != nil {
		return -1, err
	}
	return kernel.OpenFolder(at, name)
}

// contents removes what is in a directory and reports whether nothing is left.
func (r *remover) contents(folder *os.File, path string, depth int) (empty bool, err error) {
	if _, err := folder.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	empty = true
	for {
		names, err := folder.Readdirnames(chunk)
		for _, name := range names {
			if r.ctx.Err() != nil {
				return false, nil
			}
			if folder == r.top && (slices.Contains(r.moved, name) || slices.Contains(r.last, name)) {
				continue // its turn comes
			}
			empty = r.entry(folder, name, filepath.Join(path, name), depth+1) && empty
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) { // others may have removed it: getdents(2)
			break
		}
		if err != nil {
			return false, err
		}
	}
	if folder == r.top {
		empty = r.deep() && empty
		for _, name := range r.last {
			empty = empty && r.ctx.Err() == nil && r.entry(folder, name, name, 1)
		}
	}
	return empty, nil
}

// move moves a directory that is too deep to the top, where its turn comes.
func (r *remover) move(dir *os.File, name, path string) (gone bool) {
	to := r.prefix + strconv.Itoa(r.moves)
	r.moves++
	call := func() error { return unix.Renameat(int(dir.Fd()), name, int(r.top.Fd()), to) }
	err := kernel.Retried(call)
	if errors.Is(err, unix.EACCES) { // its own ".." is written, too
		if fd, openErr := r.open(dir, name); openErr == nil {
			_ = errors.Join(dir.Chmod(0o700), unix.Fchmod(fd, 0o700), unix.Close(fd)) // the next try tells
			err = kernel.Retried(call)
		}
	}
	if err != nil {
		return r.done(path, err)
	}
	r.moved = append(r.moved, to)
	return true
}

// deep removes the directories that were moved to the top.
func (r *remover) deep() (empty bool) {
	empty = true
	for len(r.moved) > 0 && r.ctx.Err() == nil {
		name := r.moved[0]
		r.moved = r.moved[1:]
		empty = r.entry(r.top, name, name, 1) && empty
	}
	return empty && len(r.moved) == 0
}
