// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package remote

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize sends on every change of the terminal's size, until stop is called.
func notifyResize(resized chan<- os.Signal) (stop func()) {
	signal.Notify(resized, syscall.SIGWINCH)
	return func() { signal.Stop(resized) }
}
