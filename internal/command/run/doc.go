// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package run has the commands that run one command, live: run and attach, stop, executors and prune.
package run

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return append([]*cobra.Command{newRun(), newPrune()}, platformCommands()...)
}
