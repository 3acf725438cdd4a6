// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package kernel

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// processStart anchors Now: Go's monotonic clock has no public zero of its own.
//
//nolint:gochecknoglobals // written once, at start
var processStart = time.Now()

// Now stamps the present moment, on a monotonic clock that starts with this process.
func Now() procstats.Stamp {
	return procstats.Stamp{Mono: time.Since(processStart) + 1, Wall: time.Now()}
}

// SinceBoot is 0: it means something only with a [BootID].
func SinceBoot() time.Duration { return 0 }

// ownRelease is not known.
func ownRelease() string { return "" }

// Connect fails: nothing here has a socket.
func Connect(string) error { return errors.ErrUnsupported }

// OpenFolder fails: there is no openat2(2) here.
func OpenFolder(int, string) (int, error) { return -1, errors.ErrUnsupported }

// MountID knows no mounts here.
func MountID(*os.File, string) (id uint64, ok bool) { return 0, false }

// File is a file that is opened once and read again and again: here those that were captured on Linux.
type File struct{ file *os.File }

// Open opens the file at path for reading.
func Open(path string) (File, error) {
	f, err := os.Open(path)
	return File{f}, err //nolint:wrapcheck // it names the operation and the file
}

// OpenIn opens a file of a folder.
func OpenIn(dir, name string, _ []byte) (File, error) { return Open(filepath.Join(dir, name)) }

// Dup fails: no cgroup has files here.
func Dup(*os.File) (File, error) { return File{}, errors.ErrUnsupported }

// IsOpen reports whether there is something to read.
func (f *File) IsOpen() bool { return f.file != nil }

// Read returns the whole file as it is now.
func (f *File) Read([]byte) ([]byte, error) {
	if !f.IsOpen() {
		return nil, fs.ErrClosed
	}
	return io.ReadAll(io.NewSectionReader(f.file, 0, math.MaxInt64))
}

// ReadRecord is Read.
func (f *File) ReadRecord(buf []byte) ([]byte, error) { return f.Read(buf) }

// ReadNow is Read.
func (f *File) ReadNow(buf []byte) ([]byte, error) { return f.Read(buf) }

// Close closes the file; closing twice is allowed.
func (f *File) Close() error {
	if !f.IsOpen() {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}

// Writes replaces the watch of folders, which this system does not have.
type Writes struct{}

// WrittenFolder replaces a folder that is watched.
type WrittenFolder struct{ Written bool }

// OpenWrites fails: there are no cgroups here.
func OpenWrites() (*Writes, error) { return nil, errors.ErrUnsupported }

// Watch fails, as OpenWrites.
func (*Writes) Watch(string) (*WrittenFolder, error) { return nil, errors.ErrUnsupported }

// Leave does nothing.
func (*Writes) Leave(*WrittenFolder) {}

// Look does nothing.
func (*Writes) Look() {}

// Close does nothing.
func (*Writes) Close() error { return nil }
