// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/series"
	"github.com/tachograph/tacho/procstats"
)

func newPlot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plot [RUN]",
		Short: "Draw what one run used over time: CPU, memory, storage, network",
		Long: `Draw what a run used over time: on the terminal, or with --output as an SVG image.

` + rundir.RunHelp + `

Each value is that of one sample, of a long run of some samples together: memory is then the highest, CPU, storage and
network the average. Nothing is drawn for times in which nothing was measured. A limit is drawn unless it is more than
three times what was used. The CPU time of all processes that ended follows, by command. A line of the record that
cannot be read is reported on stderr and leaves a gap, and the exit code is 1.`,
		Example: `  tacho plot last
  tacho plot last --output run.svg`,
		Args:    rundir.Arguments("RUN"),
		GroupID: cli.GroupRecords,
	}
	output := cmd.Flags().StringP("output", "o", "", "write an SVG image to `FILE`, which ends in .svg")
	_ = cmd.MarkFlagFilename("output", "svg") // fails only for a flag that does not exist
	rundir.ForRuns(cmd, 1, rundir.Last(), func(cmd *cobra.Command, runs []record.Entry) error {
		if *output != "" {
			if err := checkEnding(*output, ".svg", "only SVG images are written"); err != nil {
				return err
			}
		}
		entry := runs[0]
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
	})
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
			break
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
	title := p.Bold(cli.Cut(plotTitle(entry), columns))
	_, err := fmt.Fprintf(out, "%s\n\n%s%s", title, chart.Text(axis, charts, screen), bars)
	return err
}

// commandImage is the CPU time by command as bars of an image.
func commandImage(r *record.Record) *chart.Bars {
	bars := &chart.Bars{Title: summary.BarsTitle}
	for _, b := range summary.CommandBars(r) {
		label := strings.TrimSpace(b.Name + " " + b.Processes)
		bars.Rows = append(bars.Rows, chart.Bar{Share: b.Share, Label: label, Value: b.CPU + "  " + b.ShareText})
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

// runCharts arranges the samples of a run into charts of CPU, memory, I/O and pressure over one axis, and of the
// network if packets were counted.
func runCharts(r *record.Record, points []*series.Point) (*chart.Axis, []chart.Chart) {
	s := pointSeries{record: r}
	for _, p := range points {
		if p.Mono > p.From {
			s.points = append(s.points, p)
		}
	}
	charts := []chart.Chart{s.cpu(), s.memory(), s.io(), s.pressure()}
	network := s.network()
	if slices.ContainsFunc(network.Series, func(one chart.Series) bool {
		_, high, ok := one.Range()
		return ok && high > 0
	}) {
		charts = append(charts, network)
	}
	return s.axis(), charts
}

// pointSeries turns points into series. A value is at the end of its point; the first one, and the first after a gap,
// is at the beginning of its point too.
type pointSeries struct {
	record *record.Record
	points []*series.Point
}

// begins reports whether nothing was measured right before a point.
func (s *pointSeries) begins(i int) bool { return i == 0 || !s.points[i].Follows(s.points[i-1]) }

func (s *pointSeries) axis() *chart.Axis {
	const mostTicks = 6
	a := &chart.Axis{Until: time.Time{}.Add(time.Millisecond)}
	if len(s.points) == 0 {
		return a
	}
	// The clock of the points is monotonic: setting the time of day causes no gap and no overlap.
	first := s.points[0]
	start := first.Wall.Add(first.From - first.Mono)
	at := func(mono time.Duration) time.Time { return start.Add(mono - first.From) }
	for i, p := range s.points {
		if s.begins(i) {
			a.Moments = append(a.Moments, chart.Moment{At: at(p.From), Break: i > 0})
		}
		if i > 0 && s.begins(i) {
			from := s.points[i-1].Mono
			a.Gaps = append(a.Gaps, chart.Gap{
				From: at(from), To: at(p.From), Title: "no readings for " + procstats.Seconds.Text((p.From - from).Seconds()),
			})
		}
		a.Moments = append(a.Moments, chart.Moment{At: at(p.Mono)})
		if kills := s.growth(i, procstats.CgroupMemoryEventsOOMKill); kills > 0 {
			a.Marks = append(a.Marks, chart.Mark{At: at(p.Mono), Class: "oom", Title: record.KillsText(int64(kills))})
		}
	}
	a.Since, a.Until = start, a.Moments[len(a.Moments)-1].At
	a.Ticks = chart.TicksSince(a.Since, a.Until, mostTicks)
	return a
}

// growth returns how much a counter grew from the end of the point before, of the first point from 0; NaN if it is
// not known.
func (s *pointSeries) growth(i int, id procstats.ID) float64 {
	now, ok := s.points[i].Value(id, procstats.Last)
	before, known := 0.0, true
	if i > 0 {
		before, known = s.points[i-1].Value(id, procstats.Last)
	}
	if !ok || !known || now < before {
		return math.NaN()
	}
	return now - before
}

// values takes one value of each point, or NaN.
func (s *pointSeries) values(take func(i int) (value float64, ok bool)) (values []float64) {
	for i := range s.points {
		value, ok := take(i)
		if !ok {
			value = math.NaN()
		}
		if s.begins(i) {
			values = append(values, value)
		}
		values = append(values, value)
	}
	return values
}

// of returns what the points keep of a measurement.
func (s *pointSeries) of(id procstats.ID, keep procstats.Reduction) []float64 {
	return s.values(func(i int) (float64, bool) { return s.points[i].Value(id, keep) })
}

// rate returns the rate of a counter over each point.
func (s *pointSeries) rate(id procstats.ID) []float64 {
	return s.values(func(i int) (float64, bool) {
		if highest, ok := s.points[i].Value(id, procstats.Rate); ok && (s.begins(i) || s.points[i].Samples == 1) {
			return highest, true // of one sample it is the rate
		}
		if i == 0 {
			return 0, false
		}
		return s.growth(i, id) / (s.points[i].Mono - s.points[i-1].Mono).Seconds(), true
	})
}

// limits returns the effective limit, if it is known.
func (s *pointSeries) limits(label string, id procstats.ID) []chart.Limit {
	if value, ok := summary.EffectiveLimit(s.record, id); ok {
		return []chart.Limit{{Label: label, Value: value}}
	}
	return nil
}

func (s *pointSeries) cpu() chart.Chart {
	return s.chart(procstats.CgroupCPUUsage, chart.Chart{
		Title: "CPU, in cores", Unit: procstats.Cores, Limits: s.limits("quota", procstats.CgroupCPUQuota),
		Series: []chart.Series{
			{Label: "all", Class: "cpu", Area: true, Values: s.rate(procstats.HeadlineCPU)},
			{Label: "user", Class: "first", Detail: true, Values: s.rate(procstats.CgroupCPUUser)},
			{Label: "system", Class: "second", Detail: true, Values: s.rate(procstats.CgroupCPUSystem)},
		},
	})
}

func (s *pointSeries) memory() chart.Chart {
	highest := func(id procstats.ID) []float64 { return s.of(id, procstats.Max) }
	return s.chart(procstats.CgroupMemoryCurrent, chart.Chart{
		Title: "Memory, highest", Unit: procstats.Bytes, Limits: s.limits("limit", procstats.CgroupMemoryMax),
		Series: []chart.Series{
			{Label: "charged", Class: "cache", Area: true, Values: highest(procstats.HeadlineMemoryCharged)},
			{Label: "needed", Class: "memory", Area: true, Values: highest(procstats.HeadlineMemory)},
			{Label: "anonymous", Class: "first", Detail: true, Values: highest(procstats.CgroupMemoryAnon)},
			{Label: "files", Class: "second", Detail: true, Values: highest(procstats.CgroupMemoryFile)},
			{Label: "kernel", Class: "third", Detail: true, Values: highest(procstats.CgroupMemoryKernel)},
		},
	})
}

func (s *pointSeries) io() chart.Chart {
	return s.chart(procstats.CgroupIORead, chart.Chart{
		Title: "Storage, in bytes a second", Unit: procstats.BytesPerSecond,
		Series: []chart.Series{
			{Label: "read", Class: "read", Values: s.rate(procstats.HeadlineIORead)},
			{Label: "written", Class: "write", Values: s.rate(procstats.HeadlineIOWrite)},
			{Label: "handed to the kernel", Class: "third", Detail: true, Values: s.rate(procstats.HeadlineIOHanded)},
		},
	})
}

func (s *pointSeries) network() chart.Chart {
	return s.chart(procstats.SkbReceived, chart.Chart{
		Title: "Network, in bytes a second", Unit: procstats.BytesPerSecond,
		Series: []chart.Series{
			{Label: "received", Class: "read", Values: s.rate(procstats.HeadlineNetworkReceived)},
			{Label: "sent", Class: "write", Values: s.rate(procstats.HeadlineNetworkSent)},
		},
	})
}

func (s *pointSeries) pressure() chart.Chart {
	return s.chart(procstats.PSICPUSome, chart.Chart{
		Title: "Pressure, share of the time that some process waited", Unit: procstats.Share,
		Series: []chart.Series{
			{Label: "for a CPU", Class: "cpu", Values: s.rate(procstats.PSICPUSome)},
			{Label: "for memory", Class: "memory", Values: s.rate(procstats.PSIMemorySome)},
			{Label: "for I/O", Class: "io", Values: s.rate(procstats.PSIIOSome)},
			{Label: "all for memory", Class: "first", Detail: true, Values: s.rate(procstats.PSIMemoryFull)},
			{Label: "all for I/O", Class: "second", Detail: true, Values: s.rate(procstats.PSIIOFull)},
		},
	})
}

// chart omits series without values. If none is left, the chart says why: the reason of its main measurement.
func (s *pointSeries) chart(main procstats.ID, c chart.Chart) chart.Chart {
	c.Series = slices.DeleteFunc(c.Series, func(one chart.Series) bool {
		return !slices.ContainsFunc(one.Values, func(v float64) bool { return !math.IsNaN(v) })
	})
	if len(c.Series) == 0 {
		c.Limits, c.Missing = nil, s.whyMissing(main)
	}
	return c
}

func (s *pointSeries) whyMissing(id procstats.ID) string {
	return cmp.Or(s.record.Absent[id.String()], "not recorded over time")
}
