// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package agent

import (
	"os"
	"time"
)

// notifyHangup asks for nothing: there is no such signal here.
func notifyHangup(chan<- os.Signal) {}

func monotonic() time.Duration { return 0 }
