// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package remote

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize tells when the terminal's size changes, until stop is called.
func notifyResize(resized chan<- os.Signal) (stop func()) {
	signal.Notify(resized, syscall.SIGWINCH)
	return func() { signal.Stop(resized) }
}
