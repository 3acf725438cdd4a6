// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package executor

import (
	"fmt"
	"os"
)

// Main says that there is no executor process on this system: its promises (a subreaper, cgroups, pidfds) are
// Linux's. tacho run measures in its own process here.
func Main(string) int {
	fmt.Fprintln(os.Stderr, "tacho executor: requires Linux; on this system tacho run measures in its own process")
	return 1
}
