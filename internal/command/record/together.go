// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"html/template"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/chart"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/repeat"
	"github.com/tachograph/tacho/procstats"
)

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
