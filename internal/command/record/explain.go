// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain a measurement: its meaning, source and guarantee",
		Long: `Explain one measurement: what it means, how it is often misread, which kernel file it is read from, its unit,
and what it guarantees. Without a name, list all measurements by source; the name of a group, such as cgroup_memory,
lists that group.`,
		Example: `  tacho explain
  tacho explain memory_bytes
  tacho explain psi
  tacho explain cgroup_memory_peak_bytes --format json`,
		Args:              cli.Arguments("[NAME]"),
		GroupID:           cli.GroupHost,
		ValidArgsFunction: completeMeasurements,
	}
	format := cli.AddFormat(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rows, one := procstats.Table(), false
		if len(args) > 0 {
			if rows, one = measurementsOf(args[0]); len(rows) == 0 {
				return unknownMeasurement(args[0])
			}
		}
		out := cmd.OutOrStdout()
		switch {
		case format.String() == "json":
			return explainJSON(out, rows, one)
		case one:
			return explainOne(out, args[0])
		}
		_, err := io.WriteString(out, measurementList(cli.PaletteFor(cmd, out), rows))
		return err
	}
	return cmd
}

// measurementsOf returns the measurement of a name, or the measurements of a group, a prefix of whole words.
func measurementsOf(name string) (rows []procstats.Measurement, one bool) {
	if m, known := procstats.LookupName(name); known {
		return []procstats.Measurement{m}, true
	}
	for _, m := range procstats.Table() {
		if strings.HasPrefix(m.Name, name+"_") {
			rows = append(rows, m)
		}
	}
	return rows, false
}

func explainOne(out io.Writer, name string) error {
	text, err := procstats.Explain(name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// unknownMeasurement returns the error for a name that is not in the table, with similar names.
func unknownMeasurement(name string) error {
	_, err := procstats.Explain(name)
	if unknown := (*procstats.UnknownError)(nil); errors.As(err, &unknown) && len(unknown.Near) > 0 {
		near := cli.OrList(unknown.Near)
		return cli.Usagef("unknown measurement %q; did you mean %s? (tacho explain lists all)", name, near)
	}
	return cli.Usagef("unknown measurement %q (tacho explain lists all)", name)
}

// measurementList lists measurements by source, headlines first.
func measurementList(p cli.Palette, rows []procstats.Measurement) string {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b procstats.Measurement) int { return cmp.Compare(a.Source, b.Source) })
	var text strings.Builder
	for len(rows) > 0 {
		source := rows[0].Source
		if text.Len() > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(p.Bold(sourceTitle(source)) + "\n")
		t := cli.Table{Indent: "  "}
		for ; len(rows) > 0 && rows[0].Source == source; rows = rows[1:] {
			m := rows[0]
			t.Add(cli.Plain(m.Name), cli.Painted(cli.OrDash(cli.GuaranteeText(m.Guarantee)), p.Faint), cli.Plain(m.Help))
		}
		text.WriteString(t.Render(p))
	}
	return text.String()
}

func sourceTitle(source procstats.SourceID) string {
	if source == procstats.SourceNone {
		return "headlines: chosen from the measurements below"
	}
	return source.String()
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

func explainJSON(out io.Writer, rows []procstats.Measurement, one bool) error {
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
	if one {
		return cli.PrintJSON(out, list[0])
	}
	return cli.PrintJSON(out, list)
}

// completeMeasurements completes NAME.
func completeMeasurements(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cli.MeasurementCompletions(""), cobra.ShellCompDirectiveNoFileComp
}
