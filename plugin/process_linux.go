// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"io/fs"
	"syscall"
)

// ownSession keeps a terminal's signals, meant for the host, from its plugins.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func isExecutable(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 != 0 }
