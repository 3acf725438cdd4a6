// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package node

import "runtime"

func signalNames() string { return "" }

func cgroupVersion(string) string { return "" }

func usableCores() []int { return firstCores(runtime.NumCPU()) }
