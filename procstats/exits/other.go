// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package exits

import (
	"errors"
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// Reader is not to be had here.
type Reader struct{}

// Watch is not to be had here.
type Watch struct{}

// Open returns an error: only Linux reports exits.
func Open(kernel.FS) (*Reader, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Reader) Close() error { return nil }

// Watch returns an error.
func (*Reader) Watch(string) (*Watch, error) { return nil, errors.ErrUnsupported }

// Try returns an error.
func (*Reader) Try() error { return errors.ErrUnsupported }

// Finish returns an error.
func (*Watch) Finish(time.Duration) (Summary, error) { return Summary{}, errors.ErrUnsupported }

// Await returns none.
func (*Watch) Await(time.Duration) int64 { return 0 }

// Read returns nothing.
func (*Watch) Read() Summary { return Summary{} }

// Close does nothing.
func (*Watch) Close() error { return nil }
