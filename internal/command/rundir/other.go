// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package rundir

import (
	"errors"
	"fmt"
	"os"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats/kernel"
)

// tryLock returns an error: without the lock an incomplete run may be one that is starting.
func tryLock(string) (*os.File, error) {
	return nil, fmt.Errorf("lock run: %w", errors.ErrUnsupported)
}

// alive returns true: without a start time nothing identifies a process, and the record counts.
func alive(kernel.FS, record.Process, string) bool { return true }
