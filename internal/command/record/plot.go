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
	cmd := cli.Described(help, "plot")
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
	path := filepath.Join(dir, record.SamplesFile)
	for p, err := range series.ReadCSV(path) {
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
	switch info, statErr := os.Stat(path); {
	case len(points) > 0:
	case damaged:
		err = cli.ErrReported
	case statErr == nil && info.Size() > 0:
		err = fmt.Errorf("read %s: it has no complete row", path)
	default:
		err = fmt.Errorf("no samples in %s", dir)
	}
	return points, damaged, err
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

// plotImage draws before it opens the file: an error leaves no half of an image.
func plotImage(path string, entry record.Entry, axis *chart.Axis, charts []chart.Chart) error {
	bars := &chart.Bars{Title: summary.BarsTitle}
	for _, b := range summary.CommandBars(entry.Record) {
		label := strings.TrimSpace(b.Name + " " + b.Processes)
		bars.Rows = append(bars.Rows, chart.Bar{Share: b.Share, Label: label, Value: b.CPU + "  " + b.ShareText})
	}
	var image bytes.Buffer
	if err := chart.WriteSVG(&image, plotTitle(entry), axis, charts, bars); err != nil {
		return err
	}
	if err := os.WriteFile(path, image.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	return nil
}

// runCharts arranges the samples of a run into charts over one axis: those that have something to show, or one that
// says why there is nothing.
func runCharts(r *record.Record, points []*series.Point) (*chart.Axis, []chart.Chart) {
	s := pointSeries{record: r}
	for _, p := range points {
		if p.Mono > p.From {
			s.points = append(s.points, p)
		}
	}
	var charts []chart.Chart
	for i := range runPlots {
		if c := s.chart(&runPlots[i]); c.Missing == "" {
			charts = append(charts, c)
		}
	}
	if len(charts) == 0 {
		charts = append(charts, s.chart(&runPlots[0]))
	}
	return s.axis(), charts
}

// plot is what a chart of a run shows: rates of counters, of memory the highest readings.
type plot struct {
	title string
	unit  procstats.Unit
	// main is the measurement whose absence is the reason for an empty chart.
	main procstats.ID
	// limit is the measurement of a limit, if there is one; limitLabel names it.
	limitLabel string
	limit      procstats.ID
	lines      []plotLine
}

// plotLine is a series of a chart. The classes first, second and third are of details.
type plotLine struct {
	id           procstats.ID
	label, class string
}

// runPlots are the charts of a run.
//
//nolint:gochecknoglobals // a constant table
var runPlots = [...]plot{
	{"CPU, in cores", procstats.Cores, procstats.CgroupCPUUsage, "quota", procstats.CgroupCPUQuota, []plotLine{
		{procstats.HeadlineCPU, "all", "cpu"},
		{procstats.CgroupCPUUser, "user", "first"},
		{procstats.CgroupCPUSystem, "system", "second"},
	}},
	{"Memory, highest", procstats.Bytes, procstats.CgroupMemoryCurrent, "limit", procstats.CgroupMemoryMax, []plotLine{
		{procstats.HeadlineMemoryCharged, "charged", "cache"},
		{procstats.HeadlineMemory, "needed", "memory"},
		{procstats.CgroupMemoryAnon, "anonymous", "first"},
		{procstats.CgroupMemoryFile, "files", "second"},
		{procstats.CgroupMemoryKernel, "kernel", "third"},
	}},
	{"Storage, in bytes a second", procstats.BytesPerSecond, procstats.CgroupIORead, "", 0, []plotLine{
		{procstats.HeadlineIORead, "read", "read"},
		{procstats.HeadlineIOWrite, "written", "write"},
		{procstats.HeadlineIOHanded, "handed to the kernel", "third"},
	}},
	{"Pressure, share of the time that some process waited", procstats.Share, procstats.PSICPUSome, "", 0, []plotLine{
		{procstats.PSICPUSome, "for a CPU", "cpu"},
		{procstats.PSIMemorySome, "for memory", "memory"},
		{procstats.PSIIOSome, "for I/O", "io"},
		{procstats.PSIMemoryFull, "all for memory", "first"},
		{procstats.PSIIOFull, "all for I/O", "second"},
	}},
	{"Network, in bytes a second", procstats.BytesPerSecond, procstats.SkbReceived, "", 0, []plotLine{
		{procstats.HeadlineNetworkReceived, "received", "read"},
		{procstats.HeadlineNetworkSent, "sent", "write"},
	}},
}

// pointSeries turns points into series. A value is at the end of its point; the first one, and the first after a gap,
// is at the beginning of its point too.
type pointSeries struct {
	record *record.Record
	points []*series.Point
}

// chart omits series without values, and those of zeros that are not known to be zeros. If none is left, the chart says
// why.
func (s *pointSeries) chart(p *plot) chart.Chart {
	c := chart.Chart{Title: p.title, Unit: p.unit}
	filled := p.unit == procstats.Cores || p.unit == procstats.Bytes
	for _, line := range p.lines {
		values := s.values(line.id, p.unit == procstats.Bytes)
		detail := slices.Contains([]string{"first", "second", "third"}, line.class)
		one := chart.Series{Label: line.label, Class: line.class, Area: filled && !detail, Detail: detail, Values: values}
		number := s.record.Number(line.id.String())
		known, _ := number.Known()
		if _, high, ok := one.Range(); ok && (high > 0 || known != nil) {
			c.Series = append(c.Series, one)
		}
	}
	if len(c.Series) == 0 {
		c.Missing = cmp.Or(s.record.Absent[p.main.String()], "not recorded over time")
	} else if value, ok := summary.EffectiveLimit(s.record, p.limit); ok && p.limitLabel != "" {
		c.Limits = []chart.Limit{{Label: p.limitLabel, Value: value}}
	}
	return c
}

// begins reports whether nothing was measured right before a point.
func (s *pointSeries) begins(i int) bool { return i == 0 || !s.points[i].Follows(s.points[i-1]) }

// axis begins at the epoch, so that the charts of several runs share the time since their start. The clock of the
// points is monotonic: setting the time of day causes no gap and no overlap.
func (s *pointSeries) axis() *chart.Axis {
	const mostTicks = 6
	start := time.Unix(0, 0).UTC()
	a := &chart.Axis{Since: start, Until: start.Add(time.Millisecond)}
	if len(s.points) == 0 {
		return a
	}
	at := func(mono time.Duration) time.Time { return start.Add(mono - s.points[0].From) }
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
		// The counters go on over a point of one late sample; gauges say nothing of the time in it.
		if late := (p.Mono - p.From).Seconds(); p.Samples == 1 && s.record.Interval > 0 && s.record.LongGap(late) {
			a.Gaps = append(a.Gaps, chart.Gap{
				From: at(p.From), To: at(p.Mono), Title: "not sampled for " + procstats.Seconds.Text(late),
			})
		}
		a.Until = at(p.Mono)
		a.Moments = append(a.Moments, chart.Moment{At: a.Until})
		if kills := s.growth(i, procstats.CgroupMemoryEventsOOMKill); kills > 0 {
			a.Marks = append(a.Marks, chart.Mark{At: a.Until, Class: "oom", Title: record.KillsText(int64(kills))})
		}
	}
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

// values returns the highest readings of a gauge in each point, or the rates of a counter; NaN where nothing was
// measured.
func (s *pointSeries) values(id procstats.ID, highest bool) (values []float64) {
	for i, p := range s.points {
		value, ok := p.Value(id, procstats.Max)
		switch {
		case !highest:
			value = s.rate(i, id)
		case !ok:
			value = math.NaN()
		}
		if s.begins(i) {
			values = append(values, value)
		}
		values = append(values, value)
	}
	return values
}

// rate returns the rate of a counter over a point.
func (s *pointSeries) rate(i int, id procstats.ID) float64 {
	p := s.points[i]
	if highest, ok := p.Value(id, procstats.Rate); ok && (s.begins(i) || p.Samples == 1) {
		return highest // of one sample it is the rate
	}
	if i == 0 {
		return math.NaN()
	}
	return s.growth(i, id) / (p.Mono - s.points[i-1].Mono).Seconds()
}
