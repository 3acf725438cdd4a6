// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package remote

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tachograph/tacho/internal/agent/apijson"
	"github.com/tachograph/tacho/internal/agent/client"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/internal/command/summary"
	"github.com/tachograph/tacho/internal/figures"
	"github.com/tachograph/tacho/procstats"
)

func (o *statsOptions) printHistory(c *call, part client.Part) error {
	past, err := c.History(c.ctx, c.args[0], part, o.past)
	return show(c, o.output, past, err, func(b *cli.Sheet, past *apijson.History) {
		for i, name := range slices.Sorted(maps.Keys(past.Tasks)) {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(b.Bold("Task "+cli.Printable(name)) + "\n")
			switch points := past.Tasks[name]; {
			case len(points) == 0:
				b.WriteString("  no readings in this time\n")
			case part.Process != "":
				b.Table(processHistory(b.Palette, points))
			default:
				b.Table(historyTable(b.Palette, points))
			}
		}
	})
}

// startRow returns the time of a row of a history. If there is none but a gap, it adds a row that says so.
func startRow(t *cli.Table, p cli.Palette, point *apijson.Point) (at cli.Cell) {
	at = cli.Painted(point.At.Local().Format(time.DateTime), p.Faint)
	if point.Gap != "" {
		addRemark(t, at, cli.Painted("no readings: "+cli.OneLine(point.Gap), p.Yellow))
	}
	return at
}

// addRemark adds a row that has nothing between its time and its last column.
func addRemark(t *cli.Table, at, remark cli.Cell) {
	row := append([]any{at}, slices.Repeat([]any{""}, len(t.Header)-2)...)
	t.Add(append(row, remark)...)
}

// historyTable lists readings with the rates between them. There is no rate over a gap or a restart.
func historyTable(p cli.Palette, points []apijson.Point) *cli.Table {
	t := &cli.Table{
		Indent: "  ", Header: []string{"TIME", "CPU", "MEMORY", "CHARGED", "PEAK", "READ/s", "WRITTEN/s", "PRESSURE"},
		Right: []int{1, 2, 3, 4, 5, 6}, Leave: []int{3, 6, 5},
	}
	var before *figures.Moment
	for i := range points {
		point := &points[i]
		at := startRow(t, p, point)
		if point.Gap != "" {
			before = nil
			continue
		}
		moment := pointMoment(point)
		now := usageOf(moment, before)
		row := []any{at, coresText(now.Cores)}
		for _, value := range []*float64{now.Memory, now.Charged, now.Peak, now.Read, now.Written} {
			row = append(row, cli.Optional(procstats.Bytes, value))
		}
		t.Add(append(row, pressureText(now))...)
		before = moment
	}
	return t
}

// processHistory lists the processes in readings. There is no CPU over a gap or behind a reading without the process.
func processHistory(p cli.Palette, points []apijson.Point) *cli.Table {
	t := &cli.Table{Indent: "  ", Header: []string{"TIME", "PID", "CPU", "RSS", "COMMAND"}, Right: []int{1, 2, 3}}
	before := &apijson.Point{}
	for i := range points {
		point := &points[i]
		at := startRow(t, p, point)
		if point.Gap == "" && len(point.Processes) == 0 {
			addRemark(t, at, cli.Painted("not among the largest processes", p.Faint))
		}
		for k := range point.Processes {
			row := &point.Processes[k]
			cores := readingOf(point, row).coresSince(readingOf(before, sameProcess(before, row)))
			t.Add(at, row.PID, coresText(cores),
				summary.FirstValue(row.Measurements, procstats.ProcessRSS, procstats.PortableProcessRSS), row.Command)
		}
		before = point
	}
	return t
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

// writeMoment writes the readings of all tasks at one moment.
func writeMoment(b *cli.Sheet, moment *apijson.Moment) {
	for _, name := range slices.Sorted(maps.Keys(moment.Tasks)) {
		point := moment.Tasks[name]
		if point == nil {
			fmt.Fprintf(b, "%s  no readings\n", b.Bold("Task "+cli.Printable(name)))
			continue
		}
		fmt.Fprintf(b, "%s  read %s\n", b.Bold("Task "+cli.Printable(name)), summary.TimeText(point.At))
		b.Table(summary.ValueTable(point.Measurements))
		t := processTable()
		for _, row := range point.Processes {
			addProcess(t, row.PID, row.PPID, row.Measurements, row.Command)
		}
		b.Table(t)
	}
}
