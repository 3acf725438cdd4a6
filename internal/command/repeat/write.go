// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package repeat

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// Formats are the words of --format.
func Formats() []string { return []string{"table", "json", "markdown", "csv"} }

// Write writes rows in one of the Formats.
func Write(out io.Writer, p cli.Palette, format string, rows []Row) error {
	text := ""
	switch format {
	case "json":
		return cli.PrintJSON(out, rows)
	case "csv":
		return writeCSV(out, rows)
	case "markdown":
		text = Markdown(rows)
	default:
		text = Table(rows).Render(p)
		for _, sentence := range Sentences(rows) {
			text += cli.Hang(p, "", "  ", sentence, nil)
		}
	}
	_, err := io.WriteString(out, text)
	return err
}

// writeCSV writes the numbers of rows, by the names that JSON has for them. What is not known is empty.
func writeCSV(out io.Writer, rows []Row) error {
	columns := []string{
		"measurement", "series", "n", "mean", "stddev", "min", "max", "change_ratio", "within_noise", "guarantee",
		"outliers", "reason",
	}
	lines := [][]string{columns}
	for i := range rows {
		text, err := json.Marshal(&rows[i])
		fields := map[string]any{}
		if err = errors.Join(err, json.Unmarshal(text, &fields)); err != nil {
			return err
		}
		var line []string
		for _, column := range columns {
			cell := ""
			if value := fields[column]; value != nil {
				cell = strings.Trim(fmt.Sprint(value), "[]") // of a list
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return csv.NewWriter(out).WriteAll(lines)
}

// texts are the columns of a row: measurement, series, mean, deviation, extremes, number, change, remarks.
func (r *Row) texts() []string {
	if r.Statistics == nil {
		return []string{r.Name, r.Group, procstats.NoValue, "", "", "", "0", "", r.Reason}
	}
	unit := procstats.UnitOf(r.Name)
	deviation, change := "", ""
	if r.StdDev != nil {
		deviation = "± " + unit.Difference().Text(*r.StdDev)
	}
	if r.ChangeRatio != nil {
		change = procstats.Share.Signed(*r.ChangeRatio)
	}
	var remarks []string
	if r.WithinNoise != nil && *r.WithinNoise && r.ChangeRatio != nil && *r.ChangeRatio != 0 {
		remarks = append(remarks, "within noise")
	}
	if r.Guarantee == procstats.LowerBound || r.Guarantee == procstats.UpperBound {
		remarks = append(remarks, cli.GuaranteeText(r.Guarantee))
	}
	if len(r.Outliers) > 0 {
		remarks = append(remarks, "outliers: "+cli.SomeOf(r.Outliers))
	}
	return []string{
		r.Name, r.Group, unit.Text(r.Mean), deviation, unit.Text(r.Min), unit.Text(r.Max), strconv.Itoa(r.N), change,
		strings.Join(remarks, "; "),
	}
}

// Table returns rows as a table, without measurements that are 0 or not known everywhere. Of a single series, it hides
// its name and the change.
func Table(rows []Row) *cli.Table {
	t := &cli.Table{
		Header: []string{"MEASUREMENT", "RUN", "MEAN", "± σ", "MIN", "MAX", "N", "CHANGE", ""},
		Right:  []int{2, 3, 4, 5, 6, 7}, Leave: []int{6, 4, 5, 3, cli.Shorten}, Least: map[int]int{0: 12, 1: 12},
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Group != rows[0].Group }) {
		t.Hidden = []int{1, 7}
	}
	for i := range rows {
		same := func(r Row) bool { return r.Name == rows[i].Name }
		if slices.ContainsFunc(rows, func(r Row) bool { return same(r) && r.Statistics != nil && r.Max > 0 }) {
			cells := rows[i].texts()
			if slices.IndexFunc(rows, same) < i {
				cells[0] = ""
			}
			if rows[i].Statistics == nil {
				cells[len(cells)-1] = "" // see Sentences
			}
			t.AddTexts(cells...)
		}
	}
	return t
}

// Sentences say below a table what not all have, and why, and return the verdicts, all safe to print.
func Sentences(rows []Row) (sentences []string) {
	names := map[string][]string{}
	for i := range rows {
		r := &rows[i]
		some := func(other Row) bool {
			return other.Name == r.Name && (other.Statistics != nil || r.Name == record.WallName)
		}
		if r.Statistics == nil && r.Reason != record.NotRecorded && slices.ContainsFunc(rows, some) &&
			!slices.Contains(names[r.Reason], r.Name) {
			names[r.Reason] = append(names[r.Reason], r.Name)
		}
		if r.Verdict != "" {
			sentences = append(sentences, cli.Printable(r.Verdict))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(names)) {
		sentences = append(sentences, "Not all have "+cli.AndList(names[reason])+": "+cli.OneLine(reason))
	}
	return sentences
}

// Markdown returns rows as a table, and sentences.
func Markdown(rows []Row) string {
	var b strings.Builder
	t := Table(rows)
	lines := append([][]string{t.Header, slices.Repeat([]string{"---"}, len(t.Header))}, t.Texts()...)
	for n, cells := range lines {
		for i, cell := range cells {
			if n != 1 {
				cell = cli.Markdown(cell)
			}
			if !slices.Contains(t.Hidden, i) {
				b.WriteString("| " + cell + " ")
			}
		}
		b.WriteString("|\n")
	}
	for _, sentence := range Sentences(rows) {
		b.WriteString("\n" + cli.Markdown(sentence) + "\n")
	}
	return b.String()
}
