// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package repeat

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// Formats are the words of --format.
func Formats() []string { return []string{"table", "json", "markdown"} }

// Write writes rows in one of the Formats.
func Write(out io.Writer, p cli.Palette, format string, rows []Row) error {
	switch format {
	case "json":
		return cli.PrintJSON(out, rows)
	case "markdown":
		_, err := io.WriteString(out, Markdown(rows))
		return err
	}
	_, err := io.WriteString(out, table(p, rows))
	return err
}

// Texts are the fields of a row: measurement, series, mean, deviation, extremes, number, change, remarks.
func (r *Row) Texts() []string {
	if r.Statistics == nil {
		return []string{r.Name, r.Group, procstats.NoValue, "", "", "", "0", "", r.Reason}
	}
	unit := procstats.UnitOf(r.Name)
	deviation, change := "", ""
	if r.StdDev != nil {
		deviation = "± " + unit.Difference().Text(*r.StdDev)
	}
	if r.ChangeRatio != nil {
		change = cli.Signed(procstats.Share, *r.ChangeRatio)
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

// Header returns the names of the columns of Row.Texts.
func Header() []string {
	return []string{"MEASUREMENT", "RUN", "MEAN", "± σ", "MIN", "MAX", "N", "CHANGE", ""}
}

// leftOut are the columns that say nothing of a single series.
func leftOut(rows []Row) []int {
	for i := range rows {
		if rows[i].Group != rows[0].Group {
			return nil
		}
	}
	return []int{1, 7}
}

func table(p cli.Palette, rows []Row) string {
	t := cli.Table{
		Header: Header(), Right: []int{2, 3, 4, 5, 6, 7}, Hidden: leftOut(rows),
		Leave: []int{6, 4, 5, 3, cli.Shorten}, Least: map[int]int{0: 12, 1: 12},
	}
	for i := range rows {
		cells := rows[i].Texts()
		if i > 0 && rows[i].Name == rows[i-1].Name {
			cells[0] = ""
		}
		if rows[i].Statistics == nil {
			cells[len(cells)-1] = "" // below the table
		}
		t.AddTexts(cells...)
	}
	return t.Render(p) + reasons(p, rows)
}

// reasons says of each series what it has no values of, and why.
func reasons(p cli.Palette, rows []Row) string {
	type cause struct{ series, reason string }
	names := map[cause][]string{}
	var order []cause
	for i := range rows {
		if rows[i].Statistics != nil {
			continue
		}
		c := cause{rows[i].Group, rows[i].Reason}
		if names[c] == nil {
			order = append(order, c)
		}
		names[c] = append(names[c], rows[i].Name)
	}
	var b strings.Builder
	for _, c := range order {
		what := cli.AndList(names[c])
		if leftOut(rows) == nil {
			what += " of " + cli.Printable(c.series)
		}
		b.WriteString(cli.Hang(p, "", "  ", what+": "+cli.OneLine(c.reason), nil))
	}
	return b.String()
}

// Markdown returns rows as a table.
func Markdown(rows []Row) string {
	var b strings.Builder
	hidden := leftOut(rows)
	write := func(cells []string) {
		for i, cell := range cells {
			if len(hidden) == 0 || i != hidden[0] && i != hidden[1] {
				fmt.Fprintf(&b, "| %s ", cli.Markdown(cell))
			}
		}
		b.WriteString("|\n")
	}
	write(Header())
	b.WriteString(strings.Repeat("|---", len(Header())-len(hidden)) + "|\n")
	for i := range rows {
		write(rows[i].Texts())
	}
	return b.String()
}
