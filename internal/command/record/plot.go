// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/series"
)

func newPlot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plot [RUN]",
		Short: "Draw what one run used over time: CPU, memory, storage, network",
		Long: `Draw what a run used over time: on the terminal, or with --output as an SVG image.

` + rundir.RunHelp + `

Each value is that of one sample, of a long run of some samples together: memory is then the highest, CPU, storage and
network the average. Nothing is drawn for times in which nothing was measured. A limit is drawn unless it is more than three times what was used. The CPU time of all
processes that ended follows, by command. A line of the record that cannot be read is
reported on stderr and leaves a gap, and the exit code is 1.`,
		Example: `  tacho plot last
  tacho plot last --output run.svg`,
		Args:    rundir.Arguments("RUN"),
		GroupID: cli.GroupRecords,
	}
	outputDir := rundir.AddOutputDir(cmd)
	output := cmd.Flags().StringP("output", "o", "", "write an SVG image to `FILE`, which ends in .svg")
	_ = cmd.MarkFlagFilename("output", "svg") // fails only for a flag that does not exist
	cmd.ValidArgsFunction = rundir.Complete(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *output != "" {
			if err := checkEnding(*output, ".svg", "only SVG images are written"); err != nil {
				return err
			}
		}
		entry, err := rundir.FindLast(*outputDir, args)
		if err != nil {
			return err
		}
		points, damaged, err := readPoints(cmd, entry.Dir)
		if err != nil {
			return err
		}
		axis, charts := runCharts(entry.Record, points)
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

// checkEnding rejects an --output that says that the file is of another kind than what is written.
func checkEnding(path, ending, written string) error {
	has := filepath.Ext(path)
	if strings.EqualFold(has, ending) {
		return nil
	}
	return cli.Usagef("--output %s: %s; use --output %s%s", path, written, strings.TrimSuffix(path, has), ending)
}

// readPoints reads the samples of a run. Damaged lines are reported and skipped; they leave gaps.
func readPoints(cmd *cobra.Command, dir string) (points []*series.Point, damaged bool, err error) {
	for p, err := range series.ReadCSV(filepath.Join(dir, record.SamplesFile)) {
		if errors.Is(err, fs.ErrNotExist) {
			return readReports(cmd, dir)
		}
		if err != nil {
			cli.PrintError(cmd.ErrOrStderr(), err)
			damaged = true
			continue
		}
		points = append(points, p)
	}
	return points, damaged, whyNoPoints(dir, points, damaged)
}

// readReports reads the points of a run that has reports only, as earlier versions wrote them.
func readReports(cmd *cobra.Command, dir string) (points []*series.Point, damaged bool, err error) {
	for u, err := range record.ReadUsage(dir) {
		if err != nil {
			cli.PrintError(cmd.ErrOrStderr(), err)
			damaged = true
			continue
		}
		points = append(points, u.Point())
	}
	return points, damaged, whyNoPoints(dir, points, damaged)
}

func whyNoPoints(dir string, points []*series.Point, damaged bool) error {
	switch {
	case len(points) > 0:
		return nil
	case damaged:
		return cli.ErrReported
	}
	path := filepath.Join(dir, record.SamplesFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return fmt.Errorf("read %s: it has no complete row", path)
	}
	return fmt.Errorf("no samples in %s", dir)
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
	bars := summary.CommandBarsText(entry.Record, p, columns)
	if bars != "" {
		bars = "\n" + bars
	}
	_, err := fmt.Fprintf(out, "%s\n\n%s%s", p.Bold(cli.Cut(plotTitle(entry), columns)), chart.Text(axis, charts, screen), bars)
	return err
}

// commandImage is the CPU time by command as bars of an image.
func commandImage(r *record.Record) *chart.Bars {
	bars := &chart.Bars{Title: summary.BarsTitle}
	for _, b := range summary.CommandBars(r) {
		bars.Rows = append(bars.Rows, chart.Bar{Share: b.Share, Label: strings.TrimSpace(b.Name + " " + b.Processes), Value: b.CPU + "  " + b.ShareText})
	}
	return bars
}

// plotImage draws before it opens the file: an error leaves no half of an image.
func plotImage(path string, entry record.Entry, axis *chart.Axis, charts []chart.Chart) error {
	var image bytes.Buffer
	if err := chart.WriteSVG(&image, plotTitle(entry), axis, charts, commandImage(entry.Record)); err != nil {
		return err
	}
	if err := os.WriteFile(path, image.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}
