// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driver

import "syscall"

// signalNumber returns the signal of a full name, 0 where there is none. Only the signals that every system has are
// known here.
func signalNumber(name string) syscall.Signal {
	switch name {
	case "SIGHUP":
		return syscall.SIGHUP
	case "SIGINT":
		return syscall.SIGINT
	case "SIGQUIT":
		return syscall.SIGQUIT
	case "SIGKILL":
		return syscall.SIGKILL
	case "SIGTERM":
		return syscall.SIGTERM
	}
	return 0
}
