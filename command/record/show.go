// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/rundir"
	"github.com/tachograph/tacho/command/summary"
	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show one run: what it used, what it waited for, why it ended",
		Long: `Show the record of one run, with the source and the guarantee of each headline value.

` + rundir.RunHelp + `

The table of processes adds up: the rows, what exited processes used, and what no row accounts for make the total.
Values that were not measured are shown as ` + procstats.NoValue + `; --all lists every measurement, and for the absent ones the reason.
Of a run that goes on, or was lost, the numbers are those of its last report.`,
		Example: `  tacho show last
  tacho show 2026-03-04 --all
  tacho show last --format json | jq .headline`,
		Args:    cli.Arguments("RUN"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddFlag(cmd)
	format := cli.AddFormat(cmd, "text", "json")
	all := cmd.Flags().Bool("all", false, "show every measurement, and why the absent ones are absent")
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		entry, err := rundir.Find(*outputDir, args[0])
		if err != nil {
			return err
		}
		r := entry.Record
		r.State = rundir.StateOf(r, kernel.HostFS())
		r.FillFromReports(record.ReadUsage(entry.Dir))
		out := cmd.OutOrStdout()
		if format.String() == "json" {
			return cli.PrintJSON(out, r)
		}
		page := summary.NewPage(cli.PaletteFor(cmd, out), entry.Name, r)
		_, err = io.WriteString(out, page.Render(*all))
		return err
	}
	return cmd
}
