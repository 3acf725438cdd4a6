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
	fmt.Fprintln(os.Stderr, "tacho executor: it needs Linux; tacho run measures in its own process on this system")
	return 1
}
