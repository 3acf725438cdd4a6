// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// File types of a cpio header: the S_IFMT bits of st_mode.
const (
	typeChar    = 0o020000
	typeFolder  = 0o040000
	typeRegular = 0o100000
	typeSymlink = 0o120000
)

// entry is one member of an archive. Owner, times and links are those of an initramfs: zero.
type entry struct {
	name         string // absolute path in the guest
	mode         uint32 // type and permissions
	major, minor uint32 // of a device
	size         int64
}

// archive writes an initramfs in the "newc" format
// (https://docs.kernel.org/driver-api/early-userspace/buffer-format.html).
// Parent folders come into it by themselves. The first error stays and is returned by close.
type archive struct {
	w       *bufio.Writer
	inode   uint32
	folders map[string]bool
	err     error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), folders: map[string]bool{"/": true}}
}

// folder adds a folder unless it is there already.
func (a *archive) folder(name string, perm fs.FileMode) {
	if name = path.Clean(name); !a.folders[name] {
		a.folders[name] = true
		a.add(entry{name: name, mode: typeFolder | uint32(perm.Perm())}, nil)
	}
}

func (a *archive) file(name string, perm fs.FileMode, data string) {
	a.add(entry{name: name, mode: typeRegular | uint32(perm.Perm()), size: int64(len(data))}, strings.NewReader(data))
}

func (a *archive) symlink(name, target string) {
	a.add(entry{name: name, mode: typeSymlink | 0o777, size: int64(len(target))}, strings.NewReader(target))
}

func (a *archive) device(name string, perm fs.FileMode, major, minor uint32) {
	a.add(entry{name: name, mode: typeChar | uint32(perm.Perm()), major: major, minor: minor}, nil)
}

// copy adds the host's file as name. Everybody in the guest may read it.
func (a *archive) copy(host, name string) {
	f, err := os.Open(host)
	if err != nil {
		a.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.fail(err)
		return
	}
	a.add(entry{name: name, mode: typeRegular | uint32(info.Mode().Perm()) | 0o444, size: info.Size()}, f)
}

// tree adds the host's file, or its folder with everything in it, as name.
func (a *archive) tree(host, name string) {
	host, err := filepath.EvalSymlinks(host)
	if err != nil {
		a.fail(err)
		return
	}
	err = filepath.WalkDir(host, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(host, file)
		if err != nil {
			return err
		}
		switch inside := path.Join(name, filepath.ToSlash(rel)); d.Type() {
		case fs.ModeDir:
			a.folder(inside, 0o755)
		case fs.ModeSymlink:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			a.symlink(inside, target)
		case 0:
			a.copy(file, inside)
		default:
			return fmt.Errorf("%s: no place in an archive for a %v", file, d.Type())
		}
		return a.err
	})
	a.fail(err)
}

// close ends the archive.
func (a *archive) close() error {
	a.header(entry{name: "TRAILER!!!"}, 0)
	a.fail(a.w.Flush())
	return a.err
}

func (a *archive) add(e entry, data io.Reader) {
	a.folder(path.Dir(e.name), 0o755)
	if e.size > math.MaxUint32 {
		a.fail(fmt.Errorf("%s: %d bytes do not fit into a newc archive", e.name, e.size))
	}
	e.name = strings.TrimPrefix(e.name, "/")
	a.inode++
	a.header(e, a.inode)
	if a.err != nil || data == nil {
		return
	}
	// A file that grows or shrinks meanwhile must not shift what follows it.
	if _, err := io.CopyN(a.w, data, e.size); err != nil {
		a.fail(fmt.Errorf("archive %s: %w", e.name, err))
		return
	}
	a.pad(e.size)
}

func (a *archive) header(e entry, inode uint32) {
	if a.err != nil {
		return
	}
	const owner, links, mtime, device, checksum = 0, 1, 0, 0, 0
	n, err := fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		inode, e.mode, owner, owner, links, mtime, e.size, device, device, e.major, e.minor,
		len(e.name)+1, checksum, e.name)
	a.fail(err)
	a.pad(int64(n))
}

// pad fills up to the next multiple of four after n bytes.
func (a *archive) pad(n int64) {
	_, err := a.w.Write(make([]byte, -n&3))
	a.fail(err)
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
