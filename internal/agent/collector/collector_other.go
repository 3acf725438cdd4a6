// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package collector

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Ensure is errors.ErrUnsupported: log files are rotated on Linux only.
func Ensure(Options) (stdout, stderr string, err error) {
	return "", "", fmt.Errorf("collect logs: %w", errors.ErrUnsupported)
}

// End does nothing: there never is a collector.
func End(context.Context, Options) error { return nil }

// EndAll does nothing either.
func EndAll(context.Context, string) error { return nil }

// Main is not started here.
func Main(args []string) int {
	_, err := parse(args)
	fmt.Fprintln(os.Stderr, errors.Join(err, errors.ErrUnsupported))
	return 1
}
