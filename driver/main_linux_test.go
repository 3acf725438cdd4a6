// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	"github.com/tachograph/tacho/executor"
)

// TestMain lets the test binary be the executor of the tasks under test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		syscall.Exit(executor.Main("test")) // with -race, os.Exit sleeps for a second
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // tests mostly wait for processes
		panic(err)
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	// A fuzzing run has goroutines of its own.
	if code == 0 && flag.Lookup("test.fuzz").Value.String() == "" && !settled(before) {
		fmt.Fprintln(os.Stderr, "goroutines are left after all drivers were closed:")
		if err := pprof.Lookup("goroutine").WriteTo(os.Stderr, 1); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		code = 1
	}
	os.Exit(code)
}

// settled waits until no more goroutines are left than there were.
func settled(before int) bool {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}
