// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package procstats

import (
	"errors"
	"io/fs"
	"os"
)

// keptFile stands for the kernel files that this system does not have.
type keptFile struct{}

// openKept fails: there are no such files here.
func openKept(path string) (keptFile, error) {
	return keptFile{}, &fs.PathError{Op: "open", Path: path, Err: errors.ErrUnsupported}
}

func dupKept(*os.File) (keptFile, error) { return keptFile{}, errors.ErrUnsupported }

func (*keptFile) isOpen() bool { return false }

func (*keptFile) read(buf []byte) ([]byte, error) { return buf[:0], errors.ErrUnsupported }

func (*keptFile) readRecord(buf []byte) ([]byte, error) { return buf[:0], errors.ErrUnsupported }

func (*keptFile) close() error { return nil }
