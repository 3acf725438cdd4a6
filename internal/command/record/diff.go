// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/budget"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [A B]",
		Short: "Compare two runs: what B used more or less than A",
		Long: `Show two runs side by side, with the change from A to B, also in percent of A.

A and B are runs: each is ` + rundir.Words + `.
Without them the last two runs are compared: last~1 and last.

Values that were not measured are shown as ` + procstats.NoValue + ` with the reason, and without a change.

--max-increase sets a budget for the change. It also fails if a side was not measured, or if only a bound is known that does not
decide.

Differences that make the runs hard to compare are listed first: machine, kernel, command, selection, source, guarantee.`,
		Example: `  tacho diff 2026-03-04T10 last
  tacho diff --max-increase memory_peak=10% main last
  tacho diff before/ after/ --format json | jq .warnings`,
		Args:    rundir.Arguments("A", "B"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddOutputDir(cmd)
	format := cli.AddFormat(cmd, "table", "json")
	mostOf := cmd.Flags().StringArray("max-increase", nil,
		"exit with 123 if B used more than A by more than this, `MEASUREMENT=VALUE`: memory_peak=10%, wall=2s; may be repeated")
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"last~1", "last"}
		}
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
		d := diffRuns(a, b)
		ofA, errA := repeat.Of(a)
		ofB, errB := repeat.Of(b)
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		d.addNoise(ofA, ofB)
		for _, text := range *mostOf {
			most, err := budget.ParseIncrease(text)
			if err != nil {
				return cli.Usagef("--max-increase %s: %w", text, err)
			}
			d.Budgets = append(d.Budgets, most.Check(a.Record, b.Record))
		}
		out := cmd.OutOrStdout()
		if format.String() == "json" {
			err = cli.PrintJSON(out, d)
		} else {
			_, err = io.WriteString(out, d.render(cli.PaletteFor(cmd, out)))
		}
		if err != nil {
			return err
		}
		return budget.Report(d.Budgets, func(err error) { cli.PrintError(cmd.ErrOrStderr(), err) })
	}
	return cmd
}

// render returns both runs as text.
func (d *runDiff) render(p cli.Palette) string {
	var text string
	for _, warning := range d.Warnings {
		text += cli.Hang(p, p.Yellow("note: "), "      ", cli.Printable(warning), p.Yellow)
	}
	if text != "" {
		text += "\n"
	}
	text += "A  " + cli.Printable(d.A.Name) + "\nB  " + cli.Printable(d.B.Name) + "\n\n"
	t := cli.Table{Header: []string{"", "A", "B", "CHANGE", "", ""}, Right: []int{1, 2, 3, 4}, Leave: []int{4}}
	t.AddTexts("state", string(d.A.State), string(d.B.State))
	t.AddTexts("outcome", cli.OrDash(string(d.A.Outcome)), cli.OrDash(string(d.B.Outcome)))
	t.AddTexts("exit code", summary.ExitText(d.A.ExitCode, d.A.Signal), summary.ExitText(d.B.ExitCode, d.B.Signal))
	for _, rows := range [][]diffRow{d.Headline, d.Measurements} {
		if len(rows) > 0 {
			t.Add()
		}
		for i := range rows {
			t.Add(rows[i].cells(p)...)
		}
	}
	return text + t.Render(p)
}

func (row *diffRow) cells(p cli.Palette) []cli.Cell {
	unit := procstats.UnitOf(row.Name)
	a, b := row.side(unit, row.A, row.TextA), row.side(unit, row.B, row.TextB)
	change, relative := "", ""
	if row.Change != nil {
		change = signed(unit.Difference().Text(*row.Change), *row.Change)
	}
	if row.ChangeRatio != nil {
		relative = signed(procstats.Share.Text(*row.ChangeRatio), *row.ChangeRatio)
	}
	return []cli.Cell{
		cli.Plain(row.Name), cli.Plain(a), cli.Plain(b), cli.Painted(change, p.Bold), cli.Plain(relative),
		cli.Painted(cli.Printable(row.why()), p.Faint),
	}
}

func (row *diffRow) side(unit procstats.Unit, value *float64, text string) string {
	if text != "" {
		return cli.Printable(text)
	}
	return cli.Optional(unit, value)
}

// why returns the reason for an absent side, or what is to be said of the change.
func (row *diffRow) why() string {
	switch {
	case row.AbsentA != "" && row.AbsentA == row.AbsentB:
		return row.AbsentA
	case row.AbsentA != "" && row.AbsentB != "":
		return "A: " + row.AbsentA + "; B: " + row.AbsentB
	case row.AbsentA != "":
		return "A: " + row.AbsentA
	case row.AbsentB != "":
		return "B: " + row.AbsentB
	case row.WithinNoise != nil && *row.WithinNoise && *row.Change != 0:
		return "within the noise of repeated runs"
	}
	return ""
}

func signed(text string, value float64) string {
	if value > 0 {
		return "+" + text
	}
	return text
}
