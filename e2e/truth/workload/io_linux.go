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
func writeFile(name string, size int64, flag int) (err error) {
	file, err := open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|flag)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return errors.Join(writeBlocks(file, size), file.Sync())
}

// writeBlocks writes so many bytes in blocks of 1 MiB, which are aligned as O_DIRECT wants it: they are mapped.
func writeBlocks(file *os.File, size int64) (err error) {
	block, err := touch(mib)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(block)) }()
	for left := size; left > 0; left -= min(left, mib) {
		if _, err := file.Write(block[:min(left, mib)]); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads a whole file in blocks of 1 MiB.
func readFile(name string, flag int) (err error) {
	file, err := open(name, os.O_RDONLY|flag)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	block, err := touch(mib)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(block)) }()
	for {
		_, err := file.Read(block)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func open(name string, flag int) (*os.File, error) {
	file, err := os.OpenFile(name, flag, 0o600)
	if errors.Is(err, unix.EINVAL) && flag&unix.O_DIRECT != 0 {
		return nil, fmt.Errorf("this file system has no O_DIRECT: %w", errors.ErrUnsupported)
	}
	return file, err
}

// onDisk fails where the folder has no storage below it that could be written to.
func (w *workload) onDisk() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(w.dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", w.dir, err)
	}
	switch uint32(fs.Type) { // the numbers have 32 bits, statfs(2); the field is as wide as the machine's long
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return fmt.Errorf("%s is not on a disk: %w", w.dir, errors.ErrUnsupported)
	}
	return nil
}

// ioDirect writes and reads 64 MiB past the page cache.
func (w *workload) ioDirect() error {
	const size = 64 * mib
	if err := w.onDisk(); err != nil {
		return err
	}
	name := filepath.Join(w.dir, "direct")
	if err := writeFile(name, size, unix.O_DIRECT); err != nil {
		return err
	}
	if err := readFile(name, unix.O_DIRECT); err != nil {
		return err
	}
	w.noteIO(size)
	return nil
}

// ioBuffered writes 64 MiB through the page cache, syncs and forgets them, and reads them from storage again.
func (w *workload) ioBuffered() error {
	const size = 64 * mib
	if err := w.onDisk(); err != nil {
		return err
	}
	name := filepath.Join(w.dir, "buffered")
	if err := writeFile(name, size, 0); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("fadvise: %w", err)
	}
	if err := readFile(name, 0); err != nil {
		return err
	}
	w.noteIO(size)
	return nil
}

func (w *workload) noteIO(size int64) {
	w.truth.IO.Read, w.truth.IO.Written = &size, &size
	w.truth.IO.StorageRead, w.truth.IO.StorageWritten = &size, &size
}

// reapIO has a child that writes and reads 50 MB, is seen with it, and is reaped by a parent that is seen after it.
func (w *workload) reapIO() error {
	const size = 50_000_000
	c, err := w.startCrew(1, role{copied: size, dir: w.dir})
	if err != nil {
		return err
	}
	if err := c.reported(); err != nil {
		return err
	}
	time.Sleep(600 * time.Millisecond)
	if err := c.letGo(); err != nil {
		return err
	}
	w.truth.IO.Read, w.truth.IO.Written = new(int64(size)), new(int64(size))
	if w.onDisk() == nil {
		w.truth.IO.StorageWritten = new(int64(size))
	}
	time.Sleep(600 * time.Millisecond)
	return nil
}
