// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

func newExplain() *cobra.Command {
	cmd := cli.Described(help, "explain")
	cmd.GroupID, cmd.ValidArgsFunction = cli.GroupHost, completeMeasurements
	format := cli.AddFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			rows := procstats.Table()
			return cli.Print(cmd, format, explain(rows), listOf(rows))
		}
		e, err := procstats.Explain(args[0])
		if err == nil {
			m, _ := procstats.LookupName(args[0])
			one := explain([]procstats.Measurement{m})[0]
			return cli.Print(cmd, format, one, func(p cli.Palette) string { return explanationText(p, m.Name, e) })
		}
		rows := groupOf(args[0])
		if len(rows) == 0 {
			return unknownMeasurement(args[0], err)
		}
		return cli.Print(cmd, format, explain(rows), listOf(rows))
	}
	return cmd
}

// explanationText is as wide as the terminal, and fits on any where there is none.
func explanationText(p cli.Palette, name string, e procstats.Explanation) string {
	text := cli.Sheet{Palette: p}
	text.Columns = cmp.Or(p.Columns, 80)
	text.WriteString(text.Bold(name) + "\n")
	for _, paragraph := range e.Text {
		text.Hang("  ", "  ", paragraph, nil)
	}
	text.WriteByte('\n')
	for _, fact := range e.Facts {
		word := fmt.Sprintf("  %-10s ", fact[0])
		text.Hang(word, strings.Repeat(" ", len(word)), fact[1], nil)
	}
	return text.String()
}

// groupOf returns the measurements of a group, a prefix of whole words.
func groupOf(name string) (rows []procstats.Measurement) {
	return slices.DeleteFunc(procstats.Table(), func(m procstats.Measurement) bool {
		return !strings.HasPrefix(m.Name, name+"_")
	})
}

// unknownMeasurement returns the error for a name that is not in the table, with similar names.
func unknownMeasurement(name string, err error) error {
	did := ""
	if unknown := (*procstats.UnknownError)(nil); errors.As(err, &unknown) && len(unknown.Near) > 0 {
		did = "; did you mean " + cli.OrList(unknown.Near) + "?"
	}
	return cli.Usagef("unknown measurement %q%s (tacho explain lists all)", name, did)
}

// listOf lists measurements by source, headlines first.
func listOf(rows []procstats.Measurement) func(cli.Palette) string {
	return func(p cli.Palette) string {
		slices.SortStableFunc(rows, func(a, b procstats.Measurement) int { return cmp.Compare(a.Source, b.Source) })
		var text strings.Builder
		for len(rows) > 0 {
			source := rows[0].Source
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			title := cmp.Or(source.String(), "headlines: chosen from the measurements below")
			text.WriteString(p.Bold(title) + "\n")
			t := cli.Table{Indent: "  "}
			for ; len(rows) > 0 && rows[0].Source == source; rows = rows[1:] {
				m := rows[0]
				t.Add(cli.Plain(m.Name), cli.Painted(cli.OrDash(cli.GuaranteeText(m.Guarantee)), p.Faint), cli.Plain(m.Help))
			}
			text.WriteString(t.Render(p))
		}
		return text.String()
	}
}

// explained is the JSON of a row of the table.
type explained struct {
	Name       string   `json:"name"`
	ID         int      `json:"id"`
	Source     string   `json:"source,omitempty"`
	File       string   `json:"read_from"`
	Unit       string   `json:"unit,omitempty"`
	Kind       string   `json:"kind"`
	Scope      string   `json:"scope"`
	Guarantee  string   `json:"guarantee,omitempty"`
	Reductions []string `json:"reductions"`
	Help       string   `json:"help"`
	Pitfall    string   `json:"pitfall,omitempty"`
}

func explain(rows []procstats.Measurement) []explained {
	list := make([]explained, len(rows))
	for i, m := range rows {
		list[i] = explained{
			Name: m.Name, ID: int(m.ID), Source: m.Source.String(), File: m.File, Unit: m.Unit.String(), Kind: m.Kind.String(),
			Scope: m.Scope.String(), Guarantee: string(m.Guarantee), Help: m.Help, Pitfall: m.Pitfall,
		}
		for _, reduction := range m.Kind.Reductions() {
			list[i].Reductions = append(list[i].Reductions, reduction.String())
		}
	}
	return list
}

// completeMeasurements completes NAME.
func completeMeasurements(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cli.MeasurementCompletions(""), cobra.ShellCompDirectiveNoFileComp
}
