// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"testing"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/internal/version"
)

// TestMain lets the test binary be the executor of the tests' tasks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(version.String()))
	}
	os.Exit(m.Run())
}
