// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"syscall"
)

// Gone reports whether err only says that the process or cgroup behind a kernel file has ended, which is the normal
// course of things: ENOENT when its file is opened, ESRCH when a kept-open file below /proc/PID is read, ENODEV
// when a kept-open file of a removed cgroup is read.
func Gone(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}
