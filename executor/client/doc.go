// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package client starts executors, finds them again after a restart of their caller, and kills what an executor
// left behind when it died. An executor is known by its process id together with its start time and the boot it
// belongs to; nothing is ever signalled on a bare number.
package client

import (
	"errors"

	"github.com/tachograph/tacho/internal/paths"
	"github.com/tachograph/tacho/procstats/kernel"
)

var (
	// ErrLost says that the executor's process is gone.
	ErrLost = errors.New("the executor is gone")
	// ErrOtherBoot says that the machine was booted since: neither executor nor task can be there.
	ErrOtherBoot = kernel.ErrOtherBoot
	// ErrOwned says that another live process owns the executor.
	ErrOwned = errors.New("the executor is owned by another process")
)

// LongestRuntimeDir returns how many bytes the path of a runtime folder may have for IDs of so many: go-plugin names a
// socket after a number of up to ten digits.
func LongestRuntimeDir(id int) int {
	return paths.LongestSocket - len("/") - id - len("/plugin0123456789")
}
