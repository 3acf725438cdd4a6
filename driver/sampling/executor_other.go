// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package sampling

import (
	"os"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// executorCPU reads nothing: there are no executors on this system.
func executorCPU(int) (seconds float64, ok bool) { return 0, false }

// openFiles is 0: no task is read on this system.
func openFiles() int { return 0 }

// resetPeaks resets nothing: there are no cgroups on this system.
func resetPeaks(procstats.Cgroup) map[string]*os.File { return nil }

// threadCPU is not known here, and nothing is read here either.
func threadCPU() time.Duration { return 0 }
