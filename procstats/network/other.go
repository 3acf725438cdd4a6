// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package network

import (
	"errors"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Counter is not to be had here.
type Counter struct{}

// Count returns an error: only Linux counts the packets of a cgroup.
func Count(kernel.FS, string) (*Counter, error) { return nil, errors.ErrUnsupported }

// Try returns an error.
func Try(kernel.FS) error { return errors.ErrUnsupported }

// Trial returns an error.
func Trial(kernel.FS) (*Counter, error) { return nil, errors.ErrUnsupported }

// Read returns nothing.
func (*Counter) Read() Counts { return Counts{} }

// Close does nothing.
func (*Counter) Close() error { return nil }
