// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package kernel

import (
	"path/filepath"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// processStart anchors Now: Go's monotonic clock has no public zero of its own.
//
//nolint:gochecknoglobals // written once, at start
var processStart = time.Now()

// OpenIn opens a file of a folder.
func OpenIn(dir, name string, _ []byte) (File, error) { return Open(filepath.Join(dir, name)) }

// ReadNow is ReadRecord: only Linux has a system call that is worth making in another way.
func (f *File) ReadNow(buf []byte) ([]byte, error) { return f.ReadRecord(buf) }

// Now stamps the present moment, on a monotonic clock that starts with this process.
func Now() procstats.Stamp {
	return procstats.Stamp{Mono: time.Since(processStart) + 1, Wall: time.Now()}
}
