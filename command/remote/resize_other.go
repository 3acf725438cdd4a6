// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package remote

import "os"

// notifyResize never tells: there is no signal for it here. The size is read at every drawing.
func notifyResize(chan<- os.Signal) (stop func()) { return func() {} }
