// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package remote

import "os"

// notifyResize does nothing: there is no SIGWINCH. The size is read whenever the screen is drawn.
func notifyResize(chan<- os.Signal) (stop func()) { return func() {} }
