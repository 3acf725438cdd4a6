// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/series"
)

func newExport() *cobra.Command {
	cmd := cli.Described(help, "export")
	format := cli.AddFormat(cmd, "csv", "jsonl")
	columns := cmd.Flags().Bool("columns", false, "print what the columns are, and no samples")
	rundir.ForRuns(cmd, mostRuns, rundir.Last(), func(cmd *cobra.Command, runs []record.Entry) error {
		write, err := exporter(cmd.OutOrStdout(), format.String())
		damaged := false
		for _, entry := range runs {
			points, bad, readErr := readPoints(cmd, entry.Dir)
			if err = cmp.Or(err, readErr); err != nil {
				return err
			}
			damaged = damaged || bad
			err = write(entry.Name, points)
		}
		if err == nil && damaged {
			err = cli.ErrReported
		}
		return err
	})
	ofRuns := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*columns {
			return ofRuns(cmd, args)
		}
		t := cli.Table{}
		for _, c := range exportColumns() {
			t.AddTexts(c.Name, c.Help)
		}
		out := cmd.OutOrStdout()
		_, err := io.WriteString(out, t.Render(cli.PaletteFor(cmd, out)))
		return err
	}
	return cmd
}

// exportColumns are the columns of the samples, after the name of the run.
func exportColumns() []series.NamedColumn {
	return append([]series.NamedColumn{{Name: "run", Help: "The name of the run."}}, series.RunColumns()...)
}

// exporter returns what writes the points of one run after the other.
func exporter(out io.Writer, format string) (func(run string, points []*series.Point) error, error) {
	var names []string
	for _, c := range exportColumns() {
		names = append(names, c.Name)
	}
	w := csv.NewWriter(out)
	row, err := w.Write, error(nil)
	if format == "jsonl" {
		row = func(fields []string) error {
			_, err := io.WriteString(out, jsonLine(names, fields))
			return err
		}
	} else {
		err = w.Write(names)
	}
	return func(run string, points []*series.Point) error {
		for _, p := range points {
			if err := row(append([]string{run}, p.Fields()...)); err != nil {
				return err
			}
		}
		w.Flush()
		return w.Error()
	}, err
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
