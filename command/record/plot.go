// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/chart"
	"github.com/tachograph/tacho/command/cli"
	"github.com/tachograph/tacho/command/rundir"
	"github.com/tachograph/tacho/executor/record"
)

func newPlot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plot RUN",
		Short: "Draw CPU, memory, storage and pressure of one run over time",
		Long: `Draw what a run used over time: on the terminal, or with --output as an SVG image.

` + rundir.RunHelp + `

Each value holds for one report (see --report-interval of tacho run). Nothing is drawn for times in which nothing was
measured. A limit is drawn unless it is more than three times what was used. A line of the record that cannot be read is
reported on stderr and leaves a gap, and the exit code is 1.`,
		Example: `  tacho plot last
  tacho plot last --output run.svg`,
		Args:    cli.Arguments("RUN"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddOutputDir(cmd)
	output := cmd.Flags().StringP("output", "o", "", "write an SVG image to `FILE`, which ends in .svg")
	_ = cmd.MarkFlagFilename("output", "svg") // fails only for a flag that does not exist
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkImage(*output); err != nil {
			return err
		}
		entry, err := rundir.Find(*outputDir, args[0])
		if err != nil {
			return err
		}
		reports, damaged, err := readReports(cmd, entry)
		if err != nil {
			return err
		}
		axis, charts := runCharts(entry.Record, reports)
		if *output == "" {
			err = plotText(cmd, entry, axis, charts)
		} else {
			err = plotImage(*output, entry, axis, charts)
		}
		if err == nil && damaged {
			err = cli.ErrReported
		}
		return err
	}
	return cmd
}

// checkImage accepts the name of an SVG image, or none.
func checkImage(path string) error {
	ending := strings.ToLower(filepath.Ext(path))
	if path == "" || ending == ".svg" {
		return nil
	}
	return cli.Usagef("--output %s: only SVG images are written; use --output %s.svg", path, strings.TrimSuffix(path, filepath.Ext(path)))
}

// readReports reads the reports of a run. Damaged lines are reported and skipped; they leave gaps.
func readReports(cmd *cobra.Command, entry record.Entry) (reports []*record.Usage, damaged bool, err error) {
	for u, err := range record.ReadUsage(entry.Dir) {
		if err != nil {
			cli.PrintError(cmd.ErrOrStderr(), err)
			damaged = true
			continue
		}
		reports = append(reports, u)
	}
	switch {
	case len(reports) > 0:
		return reports, damaged, nil
	case damaged:
		return nil, true, cli.ErrReported
	}
	return nil, false, errors.New("nothing to plot: " + filepath.Join(entry.Dir, record.UsageFile) +
		" has no reports yet (a run writes one every --report-interval, and one at its end)")
}

func plotTitle(entry record.Entry) string {
	return cli.Printable(entry.Name) + "   " + cli.CommandLine(entry.Record.Command)
}

func plotText(cmd *cobra.Command, entry record.Entry, axis *chart.Axis, charts []chart.Chart) error {
	out := cmd.OutOrStdout()
	columns, lines := cli.TerminalSize(out)
	if columns == 0 {
		columns, lines = 80, 48
	}
	// Each chart has a title, the row of 0, two lines of time axis, a legend, and a blank.
	const around = 6
	p := cli.PaletteFor(cmd, out)
	screen := chart.Screen{Columns: columns, Rows: min(12, (lines-2)/len(charts)-around), Colour: p.On}
	_, err := fmt.Fprintf(out, "%s\n\n%s", p.Bold(cli.Cut(plotTitle(entry), columns)), chart.Text(axis, charts, screen))
	return err
}

// plotImage draws before it opens the file: an error leaves no half of an image.
func plotImage(path string, entry record.Entry, axis *chart.Axis, charts []chart.Chart) error {
	var image bytes.Buffer
	if err := chart.WriteSVG(&image, plotTitle(entry), axis, charts); err != nil {
		return err
	}
	if err := os.WriteFile(path, image.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}
