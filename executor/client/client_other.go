// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Client is a connection to an executor, which there is on Linux only.
type Client struct{}

// Start says that there is no executor on this system; the error wraps errors.ErrUnsupported.
func Start(context.Context, Options) (*Client, error) {
	return nil, fmt.Errorf("start executor: %w on this system", errors.ErrUnsupported)
}

// DefaultRuntimeDir returns where executors' folders would be kept.
func DefaultRuntimeDir() string { return filepath.Join(os.TempDir(), "tacho") }
