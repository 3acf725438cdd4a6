// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package kernel

import "errors"

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
