// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package host

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"syscall"
)

func ownSession() *syscall.SysProcAttr { return nil }

func isExecutable(info fs.FileInfo) bool {
	if runtime.GOOS == "windows" {
		return strings.HasSuffix(strings.ToLower(info.Name()), ".exe")
	}
	return info.Mode().Perm()&0o111 != 0
}

// kill is not called: nothing is reattached to here.
func kill(Address) error { return errors.ErrUnsupported }
