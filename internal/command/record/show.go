// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
)

func newShow() *cobra.Command {
	cmd := cli.Described(help, "show")
	format := cli.AddFormat(cmd, "text", "json")
	all := cmd.Flags().Bool("all", false,
		"show all measurements, sources, guarantees, processes and the evidence")
	failedFirst := cmd.Flags().Bool("failed-first", false, "list the commands of which most processes failed first")
	rundir.ForRuns(cmd, 1, rundir.Last(), func(cmd *cobra.Command, runs []record.Entry) error {
		entry := runs[0]
		rundir.Refresh(entry)
		r := entry.Record
		out := cmd.OutOrStdout()
		if format.String() == "json" {
			return cli.PrintJSON(out, r)
		}
		palette := cli.PaletteFor(cmd, out)
		page := summary.NewPage(palette, entry.Name, r)
		page.FailedFirst = *failedFirst
		history, err := rundir.History(entry)
		if err != nil {
			return err
		}
		page.Compared = repeat.Trend(r, history)
		text := page.Render(*all)
		if a := record.AdviseRuns(history); a.Line() != "" {
			word := rundir.Word(filepath.Dir(entry.Dir), entry.Name)
			text += "\n" + cli.Hang(palette, "", "", fmt.Sprintf("%s (tacho advise %s)", a.Line(), word), nil)
		}
		_, err = io.WriteString(out, text)
		return err
	})
	return cmd
}
