// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/series"
)

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [RUN...]",
		Short: "Print the samples of runs as CSV or JSON lines",
		Long: `Print the samples of runs as a flat table: one row for each point of time, with the name of its run.

RUN is ` + rundir.Words + `.
Without it, last is meant.

A row is one sample, of a long run some samples together. What was not measured is empty in CSV, and null in JSON.
--columns prints what the columns are; docs/records.md has recipes for pandas, DuckDB and jq.`,
		Example: `  tacho export last > samples.csv
  tacho export --format jsonl last~1 last | jq .memory_bytes
  tacho export --columns`,
		Args:    cli.Arguments("[RUN...]"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddOutputDir(cmd)
	format := cli.AddFormat(cmd, "csv", "jsonl")
	columns := cmd.Flags().Bool("columns", false, "print what the columns are, and no samples")
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 1000)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *columns {
			return printColumns(cmd)
		}
		if len(args) == 0 {
			args = []string{"last"}
		}
		write, err := exporter(cmd.OutOrStdout(), format.String())
		if err != nil {
			return err
		}
		damaged := false
		for _, word := range args {
			entry, err := rundir.Find(*outputDir, word)
			if err != nil {
				return err
			}
			points, bad, err := readPoints(cmd, entry.Dir)
			if err != nil {
				return err
			}
			damaged = damaged || bad
			if err := write(entry.Name, points); err != nil {
				return err
			}
		}
		if damaged {
			return cli.ErrReported
		}
		return nil
	}
	return cmd
}

// exportColumns are the columns of the samples, after the name of the run.
func exportColumns() []series.NamedColumn {
	return append([]series.NamedColumn{{Name: "run", Help: "The name of the run."}}, series.RunColumns()...)
}

func printColumns(cmd *cobra.Command) error {
	t := cli.Table{}
	for _, c := range exportColumns() {
		t.AddTexts(c.Name, c.Help)
	}
	out := cmd.OutOrStdout()
	_, err := io.WriteString(out, t.Render(cli.PaletteFor(cmd, out)))
	return err
}

// exporter returns what writes the points of one run after the other.
func exporter(out io.Writer, format string) (func(run string, points []*series.Point) error, error) {
	var names []string
	for _, c := range exportColumns() {
		names = append(names, c.Name)
	}
	if format == "jsonl" {
		return func(run string, points []*series.Point) error {
			for _, p := range points {
				if _, err := io.WriteString(out, jsonLine(names, append([]string{run}, p.Fields()...))); err != nil {
					return err
				}
			}
			return nil
		}, nil
	}
	w := csv.NewWriter(out)
	return func(run string, points []*series.Point) error {
		for _, p := range points {
			if err := w.Write(append([]string{run}, p.Fields()...)); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	}, w.Write(names)
}

// jsonLine returns the fields of a row as one line of JSON: the run and the time are texts, all others numbers.
func jsonLine(names, fields []string) string {
	const texts = 2
	var b strings.Builder
	for i, field := range fields {
		value := field
		switch {
		case i < texts:
			quoted, _ := json.Marshal(field) // a string cannot fail
			value = string(quoted)
		case field == "":
			value = "null"
		}
		fmt.Fprintf(&b, "%s%q:%s", map[bool]string{true: "{", false: ","}[i == 0], names[i], value)
	}
	return b.String() + "}\n"
}
