// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package rundir

import (
	"errors"
	"fmt"
	"os"
)

// tryLock returns an error: without the lock an incomplete run may be one that is starting.
func tryLock(string) (*os.File, error) {
	return nil, fmt.Errorf("lock run: %w", errors.ErrUnsupported)
}
