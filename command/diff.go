// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

func newDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs: what B used more or less than A",
		Long: `Show two runs side by side, with the change from A to B as it is and in percent of A.

A and B are named like the RUN of tacho show. A value that was not measured is shown as ` + procstats.NoValue + ` with the reason, and
there is no change then. Where the two runs cannot be compared like for like (another machine, kernel, command,
selection, source or guarantee) that is said first.`,
		Example: `  tacho diff 2026-03-04T10 last
  tacho diff before/ after/ --format json | jq .warnings`,
		Args:    arguments("A", "B"),
		GroupID: groupRecords,
	}
	outputDir := outputDirFlag(cmd.Flags())
	format := formatFlag(cmd, "table", "json")
	cmd.ValidArgsFunction = completeRuns(outputDir, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := findRun(*outputDir, args[0])
		if err != nil {
			return err
		}
		b, err := findRun(*outputDir, args[1])
		if err != nil {
			return err
		}
		for _, entry := range []record.Entry{a, b} {
			entry.Record.State = stateOf(entry.Record, kernel.HostFS())
		}
		c := compare(a, b)
		out := cmd.OutOrStdout()
		if format.value == "json" {
			return printJSON(out, c)
		}
		_, err = io.WriteString(out, c.render(paletteFor(cmd, out)))
		return err
	}
	return cmd
}

// render returns the comparison as text for people.
func (c *comparison) render(p palette) string {
	var text string
	for _, warning := range c.Warnings {
		text += p.yellow("mind: "+printable(warning)) + "\n"
	}
	if text != "" {
		text += "\n"
	}
	t := table{header: []string{"", "A", "B", "CHANGE", "", ""}, right: map[int]bool{1: true, 2: true, 3: true, 4: true}}
	t.add(plain("run", printable(c.A.Name), printable(c.B.Name))...)
	t.add(plain("state", string(c.A.State), string(c.B.State))...)
	t.add(plain("verdict", orDash(string(c.A.Verdict)), orDash(string(c.B.Verdict)))...)
	t.add(plain("exit code", exitText(c.A.ExitCode, c.A.Signal), exitText(c.B.ExitCode, c.B.Signal))...)
	for _, rows := range [][]comparedRow{c.Headline, c.Measurements} {
		if len(rows) > 0 {
			t.add()
		}
		for i := range rows {
			t.add(rows[i].cells(p)...)
		}
	}
	return text + t.render(p)
}

func (row *comparedRow) cells(p palette) []cell {
	unit := procstats.UnitOf(row.Name)
	a, b := row.side(unit, row.A, row.TextA), row.side(unit, row.B, row.TextB)
	change, relative := "", ""
	if row.Change != nil {
		change = signed(unit.Text(*row.Change), *row.Change)
	}
	if row.ChangeRatio != nil {
		relative = signed(procstats.Share.Text(*row.ChangeRatio), *row.ChangeRatio)
	}
	return []cell{
		{text: row.Name},
		{text: a},
		{text: b},
		{text: change, paint: p.bold},
		{text: relative},
		{text: printable(row.why()), paint: p.faint},
	}
}

func (row *comparedRow) side(unit procstats.Unit, value *float64, text string) string {
	if text != "" {
		return printable(text)
	}
	return optional(unit, value)
}

// why says which side is absent and for what reason.
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
