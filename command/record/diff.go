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

func newDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs: what B used more or less than A",
		Long: `Show two runs side by side, with the change from A to B, also in percent of A.

A and B are runs: each is the name of a run as shown by tacho ls, a prefix of it, the path of its directory, or last.

Values that were not measured are shown as ` + procstats.NoValue + ` with the reason, and without a change.

Differences that make the runs hard to compare are listed first: machine, kernel, command, selection, source, guarantee.`,
		Example: `  tacho diff 2026-03-04T10 last
  tacho diff before/ after/ --format json | jq .warnings`,
		Args:    cli.Arguments("A", "B"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddOutputDir(cmd)
	format := cli.AddFormat(cmd, "table", "json")
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := rundir.Find(*outputDir, args[0])
		if err != nil {
			return err
		}
		b, err := rundir.Find(*outputDir, args[1])
		if err != nil {
			return err
		}
		for _, entry := range []record.Entry{a, b} {
			entry.Record.State = rundir.CurrentState(entry.Record, kernel.HostFS())
		}
		c := compare(a, b)
		out := cmd.OutOrStdout()
		if format.String() == "json" {
			return cli.PrintJSON(out, c)
		}
		_, err = io.WriteString(out, c.render(cli.PaletteFor(cmd, out)))
		return err
	}
	return cmd
}

// render returns the comparison as text.
func (c *comparison) render(p cli.Palette) string {
	var text string
	for _, warning := range c.Warnings {
		text += p.Yellow("note: "+cli.Printable(warning)) + "\n"
	}
	if text != "" {
		text += "\n"
	}
	t := cli.Table{Header: []string{"", "A", "B", "CHANGE", "", ""}, Right: []int{1, 2, 3, 4}}
	t.AddTexts("run", cli.Printable(c.A.Name), cli.Printable(c.B.Name))
	t.AddTexts("state", string(c.A.State), string(c.B.State))
	t.AddTexts("outcome", cli.OrDash(string(c.A.Outcome)), cli.OrDash(string(c.B.Outcome)))
	t.AddTexts("exit code", summary.ExitText(c.A.ExitCode, c.A.Signal), summary.ExitText(c.B.ExitCode, c.B.Signal))
	for _, rows := range [][]comparedRow{c.Headline, c.Measurements} {
		if len(rows) > 0 {
			t.Add()
		}
		for i := range rows {
			t.Add(rows[i].cells(p)...)
		}
	}
	return text + t.Render(p)
}

func (row *comparedRow) cells(p cli.Palette) []cli.Cell {
	unit := procstats.UnitOf(row.Name)
	a, b := row.side(unit, row.A, row.TextA), row.side(unit, row.B, row.TextB)
	change, relative := "", ""
	if row.Change != nil {
		change = signed(unit.Text(*row.Change), *row.Change)
	}
	if row.ChangeRatio != nil {
		relative = signed(procstats.Share.Text(*row.ChangeRatio), *row.ChangeRatio)
	}
	return []cli.Cell{
		cli.Plain(row.Name), cli.Plain(a), cli.Plain(b), cli.Painted(change, p.Bold), cli.Plain(relative),
		cli.Painted(cli.Printable(row.why()), p.Faint),
	}
}

func (row *comparedRow) side(unit procstats.Unit, value *float64, text string) string {
	if text != "" {
		return cli.Printable(text)
	}
	return cli.Optional(unit, value)
}

// why returns the reason for an absent side.
func (row *comparedRow) why() string {
	switch {
	case row.AbsentA != "" && row.AbsentA == row.AbsentB:
		return row.AbsentA
	case row.AbsentA != "" && row.AbsentB != "":
		return "A: " + row.AbsentA + "; B: " + row.AbsentB
	case row.AbsentA != "":
		return "A: " + row.AbsentA
	case row.AbsentB != "":
		return "B: " + row.AbsentB
	}
	return ""
}

func signed(text string, value float64) string {
	if value > 0 {
		return "+" + text
	}
	return text
}
