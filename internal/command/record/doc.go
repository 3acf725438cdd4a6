// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package record has the commands that show what was recorded: ls, show, diff and plot, and explain for the names.
package record

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{newDiff(), newCompare(), newExplain(), newExport(), newLs(), newPlot(), newReport(), newShow()}
}
