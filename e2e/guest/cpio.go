// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// File types of a cpio header: the S_IFMT bits of st_mode.
const (
	typeDevice  = 0o020000
	typeFolder  = 0o040000
	typeRegular = 0o100000
	typeSymlink = 0o120000
)

// archive makes an initramfs in the "newc" format
// (https://docs.kernel.org/driver-api/early-userspace/buffer-format.html). Everything in it belongs
// to root. Parent folders come into it by themselves. The zero archive is empty.
type archive struct {
	data    bytes.Buffer
	members int
	folders map[string]bool
}

// bytes ends the archive and returns it.
func (a *archive) bytes() []byte {
	a.add("TRAILER!!!", 0, nil)
	return a.data.Bytes()
}

func (a *archive) file(name string, perm uint32, data []byte) {
	a.folder(path.Dir(name))
	a.add(name, typeRegular|perm, data)
}

// folder adds a folder unless it is there already.
func (a *archive) folder(name string) {
	if name == "/" || a.folders[name] {
		return
	}
	a.folder(path.Dir(name))
	a.add(name, typeFolder|0o755, nil)
	if a.folders == nil {
		a.folders = make(map[string]bool)
	}
	a.folders[name] = true
}

// console adds the device that init's stdin, stdout and stderr are: the kernel opens it before any
// file system is mounted.
func (a *archive) console() {
	a.folder("/dev")
	a.add("/dev/console", typeDevice|0o600, nil, 5, 1)
}

// copy adds the host's file as name. Everybody in the guest may read it, and run it if anybody may
// on the host.
func (a *archive) copy(host, name string) error {
	info, err := os.Stat(host)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(host)
	if err != nil {
		return err
	}
	perm := uint32(0o644)
	if info.Mode()&0o111 != 0 {
		perm = 0o755
	}
	a.file(name, perm, data)
	return nil
}

// tree adds the host's file, or its folder with everything in it, as name.
func (a *archive) tree(host, name string) error {
	host, err := filepath.EvalSymlinks(host)
	if err != nil {
		return err
	}
	return filepath.WalkDir(host, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside := path.Join(name, filepath.ToSlash(strings.TrimPrefix(file, host)))
		switch d.Type() {
		case fs.ModeDir:
			a.folder(inside)
			return nil
		case fs.ModeSymlink:
			target, err := os.Readlink(file)
			a.add(inside, typeSymlink|0o777, []byte(target))
			return err
		case 0:
			return a.copy(file, inside)
		}
		return fmt.Errorf("%s: no place in an archive for a %v", file, d.Type())
	})
}

// add adds a member; numbers are major and minor of a device.
func (a *archive) add(name string, mode uint32, data []byte, numbers ...uint32) {
	const owner, links, mtime, checksum = 0, 1, 0, 0
	numbers = append(numbers, 0, 0)
	name = strings.TrimPrefix(name, "/")
	a.members++
	fmt.Fprintf(&a.data, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.members, mode, owner, owner, links, mtime, len(data), 0, 0, numbers[0], numbers[1],
		len(name)+1, checksum, name)
	a.pad()
	a.data.Write(data)
	a.pad()
}

// pad fills up to a multiple of four.
func (a *archive) pad() { a.data.Write(make([]byte, -a.data.Len()&3)) }
