// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
)

func newCompare() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare [RUN...]",
		Short: "Compare runs, and series of repeated runs: mean, deviation, change",
		Long: `Show duration, CPU, memory peak and I/O of runs, with the change from the first one.

RUN is ` + rundir.Words + `.
Without it, last is meant.

A run of tacho run --runs stands for all runs of its series: mean, standard deviation (σ), lowest and highest value, and outliers, which
are far from the median (modified Z-score above 3.5). Runs with the same --label series=NAME are a series, too.

A change is within noise if such series differ as much by chance once in 20 times (Welch's test). A single run is taken to vary as the
series that it is compared with.`,
		Example: `  tacho compare last
  tacho compare before after --format markdown
  tacho compare last~20 last~10 last --format csv`,
		Args:    cli.Arguments("[RUN...]"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddOutputDir(cmd)
	format := cli.AddFormat(cmd, repeat.Formats()...)
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 1000)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"last"}
		}
		var all []repeat.Group
		for _, word := range args {
			entry, err := rundir.Find(*outputDir, word)
			if err != nil {
				return err
			}
			s, err := repeat.Of(entry)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		out := cmd.OutOrStdout()
		return repeat.Write(out, cli.PaletteFor(cmd, out), format.String(), repeat.Compare(repeat.Distinct(all)...))
	}
	return cmd
}
