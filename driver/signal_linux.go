// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// signalNumber returns the signal of a full name, 0 where there is none.
func signalNumber(name string) syscall.Signal { return unix.SignalNum(name) }
