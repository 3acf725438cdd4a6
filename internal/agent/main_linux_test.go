// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"slices"
	"testing"

	"github.com/tachograph/tacho/executor"
	"github.com/tachograph/tacho/internal/agent/collector"
	"github.com/tachograph/tacho/internal/version"
	"github.com/tachograph/tacho/plugin"
)

// TestMain lets the test binary be the executor of the tests' tasks, and a driver plugin.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 && plugin.Requested() {
		os.Exit(plugin.Main("1.2.3"))
	}
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(version.String()))
	}
	if len(os.Args) > 2 && slices.Equal(os.Args[1:3], collector.Command) {
		os.Exit(collector.Main(os.Args[3:]))
	}
	os.Exit(m.Run())
}
