// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package agent

import (
	"os"
	"time"
)

// notifyHangup does nothing: there is no SIGHUP.
func notifyHangup(chan<- os.Signal) {}

func monotonic() time.Duration { return 0 }
