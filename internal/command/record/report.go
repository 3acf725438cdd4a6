// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/internal/command/rundir"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
)

//go:embed report.html
var reportTemplate string

func newReport() *cobra.Command {
	cmd := cli.Described(help, "report")
	output := cmd.Flags().StringP("output", "o", "report.html", "write the report to `FILE`, which ends in .html")
	_ = cmd.MarkFlagFilename("output", "html") // fails only for a flag that does not exist
	rundir.ForRuns(cmd, mostRuns, rundir.Last(), func(cmd *cobra.Command, runs []record.Entry) error {
		if err := checkEnding(*output, ".html", "only HTML is written"); err != nil {
			return err
		}
		r := report{
			Version: cmd.Root().Version, Absent: procstats.NoValue, Compared: &cli.Table{},
			Style: template.CSS(chart.Style()), Script: template.JS(chart.Script()),
			Definitions: template.HTML(chart.Definitions),
		}
		groups, err := compared(runs...)
		if err != nil {
			return err
		}
		if len(groups) > len(runs) { // one run stands for a call
			runs = nil
			for _, g := range groups {
				runs = append(runs, g.Middle())
			}
		}
		for _, entry := range runs {
			rundir.Refresh(entry)
			r.Runs = append(r.Runs, reportedRunOf(cmd, entry))
		}
		r.compare(groups)
		if len(groups) > 1 {
			r.Together = together(cmd, groups)
		}
		return r.write(*output)
	})
	return cmd
}

// report is what the template shows. Its HTML, styles and script come from package chart, which escapes texts.
type report struct {
	Title, Version, Absent string
	Style                  template.CSS
	Script                 template.JS
	Definitions            template.HTML
	Compared               *cli.Table
	Sentences              []string
	Together               []reportChart
	Runs                   []reportedRun
}

type reportedRun struct {
	Name, Command, Outcome, NoCharts string
	Bad                              bool
	End, Notes                       []string
	Facts, Commands, Limits          *cli.Table
	Charts                           []reportChart
}

type reportChart struct {
	Title string
	Body  template.HTML
}

// compare adds a table of all runs, if there are several.
func (r *report) compare(all []repeat.Group) {
	const widest = 80
	r.Title = fmt.Sprintf("Comparison of %d", len(all))
	if len(all) == 1 {
		r.Title = cli.Cut(r.Runs[0].Command, widest)
		if len(all[0].Runs) == 1 {
			return
		}
	}
	rows := repeat.Compare(all...)
	r.Compared, r.Sentences = repeat.Table(rows), repeat.Sentences(rows)
}

// write writes the whole report, or nothing.
func (r *report) write(path string) error {
	page, err := template.New("report").Parse(reportTemplate)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Execute(&text, r); err != nil {
		return err
	}
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// reportedRunOf returns what a report says of a run. A run without samples has no charts.
func reportedRunOf(cmd *cobra.Command, entry record.Entry) reportedRun {
	r := entry.Record
	end := r.End()
	run := reportedRun{
		Name: cli.Printable(entry.Name), Command: cli.CommandLine(r.Command), End: summary.EndLines(end),
		Outcome: cli.Printable(string(end.Outcome)), Bad: !end.Outcome.Success(),
		Facts: &cli.Table{}, Commands: summary.CommandTable(r.Commands, 0, false), Limits: summary.LimitTable(r),
	}
	if end.Outcome == "" {
		run.Outcome = cli.Printable(r.StateText())
	}
	facts := append(summary.Lines(r), [][2]string{
		{"started", summary.TimeText(r.StartedAt)},
		{"directory", cli.Printable(r.Dir)},
		{"message", cli.Printable(r.Message)},
		{"labels", summary.LabelsText(r.Labels)},
		{"machine", cli.Printable(fmt.Sprintf("%s, %s %s, %s", r.Host.Name, r.Host.OS, r.Host.Kernel,
			procstats.Counted(r.Host.CPUs, "CPU", "CPUs")))},
	}...)
	for _, fact := range facts {
		if fact[1] != "" {
			run.Facts.AddTexts(fact[0], fact[1])
		}
	}
	for _, note := range r.Notes {
		run.Notes = append(run.Notes, cli.Printable(note))
	}
	points, _, err := readPoints(cmd, entry.Dir)
	if err != nil {
		run.NoCharts = cli.OneLine(err.Error())
		return run
	}
	axis, charts := runCharts(r, points)
	for i := range charts {
		run.Charts = append(run.Charts, reportChart{charts[i].Title, template.HTML(charts[i].HTML(axis))})
	}
	return run
}

// together returns charts with the first series over each other: of each the run with the median duration.
func together(cmd *cobra.Command, groups []repeat.Group) (reported []reportChart) {
	const mostTicks = 6
	classes := [...]string{"cpu", "memory", "write", "first", "third", "cache"}
	var charts []chart.Chart
	axis, axes := &chart.Axis{Since: time.Unix(0, 0).UTC()}, map[string]*chart.Axis{}
	for n, g := range groups[:min(len(groups), len(classes))] {
		run, label := g.Middle(), cli.Printable(g.Name)
		points, _, err := readPoints(cmd, run.Dir)
		if err != nil {
			continue // the run says so
		}
		own, drawn := runCharts(run.Record, points)
		axes[classes[n]] = own
		for _, m := range own.Moments {
			axis.Moments = append(axis.Moments, chart.Moment{At: m.At})
		}
		for _, c := range drawn {
			for _, s := range c.Series {
				if _, high, _ := s.Range(); s.Detail || high == 0 || c.Unit == procstats.Share {
					continue
				}
				title := c.Title + ": " + s.Label
				at := slices.IndexFunc(charts, func(c chart.Chart) bool { return c.Title == title })
				if at < 0 {
					at, charts = len(charts), append(charts, chart.Chart{Title: title, Unit: c.Unit})
				}
				charts[at].Series = append(charts[at].Series, chart.Series{Label: label, Class: classes[n], Values: s.Values})
			}
		}
	}
	slices.SortFunc(axis.Moments, func(a, b chart.Moment) int { return a.At.Compare(b.At) })
	axis.Moments = slices.Compact(axis.Moments)
	for _, c := range charts {
		axis.Until = axis.Moments[len(axis.Moments)-1].At
		axis.Ticks = chart.TicksSince(axis.Since, axis.Until, mostTicks)
		for i, s := range c.Series {
			c.Series[i].Values = between(axes[s.Class].Moments, s.Values, axis.Moments)
		}
		reported = append(reported, reportChart{c.Title, template.HTML(c.HTML(axis))})
	}
	return reported
}

// between returns values at other moments than their own: those on the lines between them.
func between(own []chart.Moment, values []float64, moments []chart.Moment) (between []float64) {
	for _, m := range moments {
		value, k := math.NaN(), sort.Search(len(own), func(k int) bool { return !own[k].At.Before(m.At) })
		if k < len(own) && m.At.Equal(own[k].At) {
			value = values[k]
		} else if k > 0 && k < len(own) && !own[k].Break {
			share := m.At.Sub(own[k-1].At).Seconds() / own[k].At.Sub(own[k-1].At).Seconds()
			value = values[k-1] + share*(values[k]-values[k-1])
		}
		between = append(between, value)
	}
	return between
}
