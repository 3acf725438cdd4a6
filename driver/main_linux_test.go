// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"os"
	"testing"

	"github.com/tachograph/tacho/executor"
)

// TestMain lets the test binary be the executor of the tasks under test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main("test"))
	}
	os.Exit(m.Run())
}
