// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package remote

import "os"

// interruptible reads a file that may have nothing to say for ever. Here a read cannot be ended: whoever reads stays
// behind until the process ends, which it does next.
type interruptible struct{ *os.File }

func newInterruptible(file *os.File) (*interruptible, error) { return &interruptible{file}, nil }

// serve runs something that reads.
func (r *interruptible) serve(read func()) { go read() }

// Close leaves the file open.
func (r *interruptible) Close() error { return nil }
