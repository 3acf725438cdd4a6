// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/command/chart"
	"github.com/tachograph/tacho/executor/record"
)

func newPlot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plot RUN",
		Short: "Draw CPU, memory, storage and pressure of one run over time",
		Long: `Draw what a run used over time: on the terminal, or with --output as an SVG or PNG image.

` + runWord + `

Each value holds for one report (see --report-interval of tacho run). Where nothing was measured nothing is drawn: a gap
is a gap. The memory limit is drawn where it is less than four times of what was used. A line of the record that cannot
be read is told on stderr and leaves a gap, and the exit code is 1.`,
		Example: `  tacho plot last
  tacho plot last --output run.svg`,
		Args:    arguments("RUN"),
		GroupID: groupRecords,
	}
	outputDir := outputDirFlag(cmd.Flags())
	output := cmd.Flags().StringP("output", "o", "", "write an image to `FILE`, which ends in .svg or .png")
	_ = cmd.MarkFlagFilename("output", "svg", "png") // it fails only for a flag that does not exist
	cmd.ValidArgsFunction = completeRuns(outputDir, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		write, err := imageWriter(*output)
		if err != nil {
			return err
		}
		entry, err := findRun(*outputDir, args[0])
		if err != nil {
			return err
		}
		panels, damaged, err := readPanels(cmd, entry)
		if err != nil {
			return err
		}
		if write == nil {
			err = plotText(cmd, entry, panels)
		} else {
			err = plotImage(*output, write, entry, panels)
		}
		if err == nil && damaged {
			err = exitWith(exitFault, nil) // told already
		}
		return err
	}
	return cmd
}

type writeImage func(w io.Writer, title string, panels []chart.Panel) error

// imageWriter chooses the format by the file's ending; nil for no file.
func imageWriter(path string) (writeImage, error) {
	switch ending := strings.ToLower(filepath.Ext(path)); {
	case path == "":
		return nil, nil
	case ending == ".svg":
		return chart.WriteSVG, nil
	case ending == ".png":
		return chart.WritePNG, nil
	}
	return nil, usagef("--output %s: the name must end in .svg or .png", path)
}

// readPanels reads the reports of a run. Damaged lines are told and passed over; they leave gaps.
func readPanels(cmd *cobra.Command, entry record.Entry) (panels []chart.Panel, damaged bool, err error) {
	var reports []*record.Usage
	for u, err := range record.ReadUsage(entry.Dir) {
		if err != nil {
			complain(cmd.ErrOrStderr(), err)
			damaged = true
			continue
		}
		reports = append(reports, u)
	}
	switch {
	case len(reports) > 0:
		return chart.Panels(entry.Record, reports), damaged, nil
	case damaged:
		return nil, true, exitWith(exitFault, nil) // told already
	}
	return nil, false, errors.New("there is nothing to plot: " + filepath.Join(entry.Dir, record.UsageFile) +
		" has no report yet (a run has one per --report-interval, and one at its end)")
}

func plotTitle(entry record.Entry) string {
	return printable(entry.Name) + "   " + commandLine(entry.Record.Command)
}

func plotText(cmd *cobra.Command, entry record.Entry, panels []chart.Panel) error {
	out := cmd.OutOrStdout()
	columns, lines := terminalSize(out)
	if columns == 0 {
		columns, lines = 80, 48
	}
	// Each panel has a title, two lines of time axis, a legend of two lines, and a blank.
	const around = 6
	height := min(12, (lines-2)/len(panels)-around)
	p := paletteFor(cmd, out)
	_, err := fmt.Fprintf(out, "%s\n\n%s", p.bold(cut(plotTitle(entry), columns)), chart.Text(panels, columns, height, p.on))
	return err
}

// plotImage draws before it opens the file: a fault leaves no half of an image.
func plotImage(path string, write writeImage, entry record.Entry, panels []chart.Panel) error {
	var image bytes.Buffer
	if err := write(&image, plotTitle(entry), panels); err != nil {
		return err
	}
	if err := os.WriteFile(path, image.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}
