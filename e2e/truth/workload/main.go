// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Command workload uses known amounts of CPU, memory and I/O, and writes down what it truly used.
//
//	workload -truth FILE [-dir DIR] [-meter CGROUP] NAME   use something and say what
//	workload launch [-hold BYTES | -ignore-sigchld] -- COMMAND   start a command in odd circumstances
//	workload linger [-stubborn]   say "ready" and stay, with a child and a daemon, until killed
//	workload shape -seed N [-dir DIR]   play the random task of a seed; each of its processes says what it did
package main

import (
	"errors"
	"fmt"
	"os"
)

// exitUnsupported is the exit code where the host or the file system cannot carry out a workload.
const exitUnsupported = 77

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "workload:", err)
	if errors.Is(err, errors.ErrUnsupported) {
		os.Exit(exitUnsupported)
	}
	os.Exit(1)
}
