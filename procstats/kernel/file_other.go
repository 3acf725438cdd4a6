// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package kernel

import (
	"errors"
	"io/fs"
	"os"
)

// File replaces the kernel files, which this system does not have.
type File struct{}

// Open fails: there are no such files here.
func Open(path string) (File, error) {
	return File{}, &fs.PathError{Op: "open", Path: path, Err: errors.ErrUnsupported}
}

func Dup(*os.File) (File, error) { return File{}, errors.ErrUnsupported }

func (*File) IsOpen() bool { return false }

func (*File) Read(buf []byte) ([]byte, error) { return buf[:0], errors.ErrUnsupported }

func (*File) ReadRecord(buf []byte) ([]byte, error) { return buf[:0], errors.ErrUnsupported }

func (*File) Close() error { return nil }
