// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"flag"
	"os"
	"syscall"
	"testing"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/testkit"
	"github.com/tachograph/tacho/internal/version"
)

// TestMain lets the test binary be the executor of the tests' tasks, and the process of a trial.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		syscall.Exit(executor.Main(version.String())) // with -race, os.Exit sleeps for a second
	}
	if len(os.Args) == 3 && os.Args[2] == job.TrialCommand {
		os.Exit(job.TrialMain(os.Stdin))
	}
	// The race detector would keep each short process for a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// Most tests wait for tasks and for times of theirs: more than the machine has CPUs fit in.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// must ends the test if something that it only prepares, or relies on, has failed.
var must = testkit.Must
