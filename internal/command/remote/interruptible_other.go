// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package remote

import "os"

// interruptible is a reader of a file that may block forever. A read cannot be interrupted on this system: its
// goroutine ends with the process, which exits next.
type interruptible struct{ *os.File }

func newInterruptible(file *os.File) (*interruptible, error) { return &interruptible{file}, nil }

// start runs read in a goroutine.
func (r *interruptible) start(read func()) { go read() }

// Close does nothing.
func (r *interruptible) Close() error { return nil }
