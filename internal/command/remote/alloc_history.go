// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/procstats"
)

func (o *statsOptions) printHistory(cmd *cobra.Command, agent *client.Client, id string, part client.Part) error {
	past, err := agent.History(cmd.Context(), id, part, o.past)
	if err != nil {
		return err
	}
	return show(cmd, o.output, past, func(p cli.Palette, past *apijson.History) string {
		var tasks []string
		for _, name := range slices.Sorted(maps.Keys(past.Tasks)) {
			table := historyTable
			if part.Process != "" {
				table = processHistory
			}
			text := "  no readings in this time\n"
			if points := past.Tasks[name]; len(points) > 0 {
				text = table(p, points)
			}
			tasks = append(tasks, p.Bold("Task "+cli.Printable(name))+"\n"+text)
		}
		return strings.Join(tasks, "\n")
	})
}

// historyTable lists readings with the rates between them. There is no rate over a gap or a restart.
func historyTable(p cli.Palette, points []apijson.Point) string {
	t := cli.Table{
		Indent: "  ", Header: []string{"TIME", "CPU", "MEMORY", "CHARGED", "PEAK", "READ/s", "WRITTEN/s", "PRESSURE"},
		Right: []int{1, 2, 3, 4, 5, 6}, Leave: []int{3, 6, 5},
	}
	var before *apijson.Point
	for i := range points {
		point := &points[i]
		at := cli.Painted(point.At.Local().Format(time.DateTime), p.Faint)
		if point.Gap != "" {
			none := cli.Plain("")
			t.Add(at, none, none, none, none, none, none, cli.Painted("no readings: "+cli.OneLine(point.Gap), p.Yellow))
			before = nil
			continue
		}
		now := usageOf(pointMoment(point), pointMoment(before))
		row := []cli.Cell{at, cli.Plain(coresText(now.Cores))}
		for _, value := range []*float64{now.Memory, now.Charged, now.Peak, now.Read, now.Written} {
			row = append(row, cli.Plain(cli.Optional(procstats.Bytes, value)))
		}
		t.Add(append(row, cli.Plain(pressureText(now)))...)
		before = point
	}
	return t.Render(p)
}

// processHistory lists the processes in readings. There is no CPU over a gap or behind a reading without the process.
func processHistory(p cli.Palette, points []apijson.Point) string {
	t := cli.Table{Indent: "  ", Header: []string{"TIME", "PID", "CPU", "RSS", "COMMAND"}, Right: []int{1, 2, 3}}
	before := &apijson.Point{}
	for i := range points {
		point := &points[i]
		at := cli.Painted(point.At.Local().Format(time.DateTime), p.Faint)
		none := cli.Plain("")
		switch {
		case point.Gap != "":
			t.Add(at, none, none, none, cli.Painted("no readings: "+cli.OneLine(point.Gap), p.Yellow))
		case len(point.Processes) == 0:
			t.Add(at, none, none, none, cli.Painted("not among the largest processes", p.Faint))
		}
		for k := range point.Processes {
			row := &point.Processes[k]
			now := readingOf(point, row)
			cores := now.coresSince(readingOf(before, sameProcess(before, row)))
			t.Add(at, cli.Plain(fmt.Sprint(row.PID)), cli.Plain(coresText(cores)),
				cli.Plain(summary.FirstValue(row.Measurements, procstats.ProcessRSS, procstats.PortableProcessRSS)),
				cli.Plain(cli.Printable(row.Command)))
		}
		before = point
	}
	return t.Render(p)
}

// sameProcess finds a process in another reading; nil if it is not there.
func sameProcess(point *apijson.Point, row *apijson.PointProcess) *apijson.PointProcess {
	for i := range point.Processes {
		if other := &point.Processes[i]; other.PID == row.PID && other.Start == row.Start {
			return other
		}
	}
	return nil
}

// readingOf returns what was read of a process in a past reading; nil for nil.
func readingOf(point *apijson.Point, row *apijson.PointProcess) *processReading {
	if row == nil {
		return nil
	}
	return &processReading{at: monotonic(point.Mono).Mono, run: point.Run, number: row.Number}
}

func (o *statsOptions) printMoment(cmd *cobra.Command, agent *client.Client, id string, part client.Part) error {
	moment, err := agent.At(cmd.Context(), id, part, o.at)
	if err != nil {
		return err
	}
	return show(cmd, o.output, moment, momentText)
}

// momentText returns the readings of all tasks at one moment.
func momentText(p cli.Palette, moment *apijson.Moment) string {
	b := cli.Sheet{Palette: p}
	for _, name := range slices.Sorted(maps.Keys(moment.Tasks)) {
		point := moment.Tasks[name]
		if point == nil {
			fmt.Fprintf(&b, "%s  no readings\n", p.Bold("Task "+cli.Printable(name)))
			continue
		}
		fmt.Fprintf(&b, "%s  read %s\n", p.Bold("Task "+cli.Printable(name)), summary.TimeText(point.At))
		b.Table(summary.ValueTable(point.Measurements))
		t := processTable()
		for _, row := range point.Processes {
			addProcess(t, row.PID, row.PPID, row.Measurements, cli.Printable(row.Command))
		}
		b.Table(t)
	}
	return b.String()
}
