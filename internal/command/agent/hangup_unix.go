// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package agent

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tachograph/tacho/procstats/kernel"
)

// notifyHangup sends on SIGHUP.
func notifyHangup(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }

func monotonic() time.Duration { return kernel.Now().Mono }
