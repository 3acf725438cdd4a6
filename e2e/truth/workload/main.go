// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Command workload uses known amounts of CPU, memory and I/O, and writes down what it truly used.
//
//	workload -truth FILE [-dir DIR] [-meter CGROUP] NAME   use something and say what
//	workload launch [-hold BYTES | -ignore-sigchld] -- COMMAND   start a command in odd circumstances
//	workload linger [-stubborn]   say "ready" and stay, with a child and a daemon, until killed
//	workload network FOR WAY ...   use a socket that came in some way, and stay a while
//	workload shape -seed N [-dir DIR]   play the random task of a seed; each of its processes says what it did
//
// Whatever fails ends the process: see check.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// exitUnsupported is the exit code where the host or the file system cannot carry out a workload.
const exitUnsupported = 77

func main() {
	defer exitIfFailed()
	run(os.Args[1:])
}

// check ends the process if something has failed. Goroutines defer exitIfFailed.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// value returns what a function returned that has not failed.
func value[T any](v T, err error) T {
	check(err)
	return v
}

// exitIfFailed says what check was called with, and exits.
func exitIfFailed() {
	switch failed := recover().(type) {
	case nil:
	case runtime.Error:
		panic(failed)
	case error:
		fmt.Fprintln(os.Stderr, "workload:", failed)
		if errors.Is(failed, errors.ErrUnsupported) {
			os.Exit(exitUnsupported)
		}
		os.Exit(1)
	default:
		panic(failed)
	}
}
