// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// isOurs reports whether a file belongs to this process's user.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
