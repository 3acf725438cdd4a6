// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// writeFile writes so many bytes to a new file, in blocks of 1 MiB, and syncs it.
func writeFile(name string, size int64, flag int) {
	file := value(open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|flag))
	writeBlocks(file, size)
	check(errors.Join(file.Sync(), file.Close()))
}

// writeBlocks writes so many bytes in blocks of 1 MiB, which are aligned as O_DIRECT wants it: they are mapped.
func writeBlocks(file *os.File, size int64) {
	block := touch(mib)
	for left := size; left > 0; left -= min(left, mib) {
		value(file.Write(block[:min(left, mib)]))
	}
	unmap(block)
}

// readFile reads a whole file in blocks of 1 MiB.
func readFile(name string, flag int) {
	file, block := value(open(name, os.O_RDONLY|flag)), touch(mib)
	_, err := file.Read(block)
	for err == nil {
		_, err = file.Read(block)
	}
	if !errors.Is(err, io.EOF) {
		check(err)
	}
	unmap(block)
	check(file.Close())
}

func open(name string, flag int) (*os.File, error) {
	file, err := os.OpenFile(name, flag, 0o600)
	if errors.Is(err, unix.EINVAL) && flag&unix.O_DIRECT != 0 {
		return nil, fmt.Errorf("this file system has no O_DIRECT: %w", errors.ErrUnsupported)
	}
	return file, err
}

// forget drops the pages of a file from the page cache.
func forget(file *os.File) {
	check(os.NewSyscallError("fadvise", unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)))
}

// onDisk reports whether a folder has storage below it that can be written to.
func onDisk(dir string) bool {
	var fs unix.Statfs_t
	check(os.NewSyscallError("statfs", unix.Statfs(dir, &fs)))
	switch uint32(fs.Type) { // the numbers have 32 bits, statfs(2); the field is as wide as the machine's long
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return false
	}
	return true
}

// needDisk ends a workload that has no disk.
func (w *workload) needDisk() {
	if !onDisk(w.dir) {
		check(fmt.Errorf("%s is not on a disk: %w", w.dir, errors.ErrUnsupported))
	}
}

// ioDirect writes and reads 64 MiB past the page cache.
func (w *workload) ioDirect() {
	const size = 64 * mib
	w.needDisk()
	name := filepath.Join(w.dir, "direct")
	writeFile(name, size, unix.O_DIRECT)
	readFile(name, unix.O_DIRECT)
	w.noteIO(size)
}

// ioBuffered writes 64 MiB through the page cache, syncs and forgets them, and reads them from storage again.
func (w *workload) ioBuffered() {
	const size = 64 * mib
	w.needDisk()
	name := filepath.Join(w.dir, "buffered")
	writeFile(name, size, 0)
	file := value(os.Open(name))
	forget(file)
	readFile(name, 0)
	check(file.Close())
	w.noteIO(size)
}

func (w *workload) noteIO(size int64) {
	w.truth.IO.Read, w.truth.IO.Written = &size, &size
	w.truth.IO.StorageRead, w.truth.IO.StorageWritten = &size, &size
}

// reapIO has a child that writes and reads 50 MB, is seen with it, and is reaped by a parent that is seen after it.
func (w *workload) reapIO() {
	const size = 50_000_000
	c := w.startCrew(1, role{Copied: size, Dir: w.dir})
	c.reported()
	time.Sleep(600 * time.Millisecond)
	c.letGo()
	w.truth.IO.Read, w.truth.IO.Written = new(int64(size)), new(int64(size))
	if onDisk(w.dir) {
		w.truth.IO.StorageWritten = new(int64(size))
	}
	time.Sleep(600 * time.Millisecond)
}
