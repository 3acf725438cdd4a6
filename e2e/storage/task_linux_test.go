// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The ways in which a task writes.
const (
	taskNothing   = "nothing"
	taskBuffered  = "buffered"  // to a new file, and that is all
	taskSynced    = "synced"    // and fsync
	taskDirect    = "direct"    // past the page cache
	taskDeleted   = "deleted"   // to a file that it then removes
	taskOverwrite = "overwrite" // over a file whose pages the test has in the cache, and fsync
	taskRaw       = "raw"       // through the page cache of a device
	taskRawSynced = "rawsynced" // and fsync
	taskRead      = "read"      // nothing, and read a file past the page cache
)

// task writes size bytes to path in one of the ways.
func task(role, path string, size int64) error {
	switch role {
	case taskNothing:
		return nil
	case taskBuffered:
		return write(path, size, os.O_CREATE|os.O_EXCL, false)
	case taskSynced:
		return write(path, size, os.O_CREATE|os.O_EXCL, true)
	case taskDirect:
		return write(path, size, os.O_CREATE|os.O_EXCL|unix.O_DIRECT, true)
	case taskDeleted:
		return errors.Join(write(path, size, os.O_CREATE|os.O_EXCL, false), os.Remove(path))
	case taskOverwrite, taskRawSynced:
		return write(path, size, 0, true)
	case taskRaw:
		return write(path, size, 0, false)
	case taskRead:
		return read(path)
	}
	return fmt.Errorf("no task %q", role)
}

// block is a mapping, which is aligned as O_DIRECT needs it.
func block() ([]byte, error) {
	b, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b, err
}

func write(path string, size int64, flags int, sync bool) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := block()
	if err != nil {
		return err
	}
	at := int64(0)
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeDevice != 0 {
		at = rawOffset(path)
	}
	for end := at + size; at < end; at += int64(len(b)) {
		if _, err := f.WriteAt(b[:min(int64(len(b)), end-at)], at); err != nil {
			return err
		}
	}
	if sync {
		return f.Sync()
	}
	return nil
}

func read(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := block()
	for err == nil {
		_, err = f.Read(b)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
