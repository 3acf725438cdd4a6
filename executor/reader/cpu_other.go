// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package reader

import "time"

// ExecutorCPU reads nothing: there are no executors on this system.
func ExecutorCPU(int) (cpu time.Duration, ok bool) { return 0, false }

// threadCPU is not known here, and no task is read here either.
func threadCPU() time.Duration { return 0 }
