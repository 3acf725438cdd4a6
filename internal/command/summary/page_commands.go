// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/command/cli"
	"github.com/tachograph/tacho/procstats"
)

// pageCommands is how many rows the page has; --json has all.
const pageCommands = 30

// commands writes the section on the ended processes by command: rows, others and unattributed make the total.
func (p *Page) commands() {
	c := p.record.Commands
	if c == nil {
		return
	}
	p.Title("Commands, all processes that ended")
	if c.Reason != "" {
		p.line("unknown: %s", cli.Printable(c.Reason))
		return
	}
	p.Table(commandTable(c, 0, p.FailedFirst, pageCommands))
	p.failures(c, pageCommands)
	for _, note := range CommandNotes(c) {
		p.line("%s", note)
	}
}

// CommandNotes say what is not in a table of commands.
func CommandNotes(c *record.Commands) []string { return c.Notes(TimeText) }

// CommandTable lists the ended processes of a task by command, at most so many columns wide; it is empty if they are
// not known. With byFailures the commands with most failures come first.
func CommandTable(c *record.Commands, width int, byFailures bool) *cli.Table {
	return commandTable(c, width, byFailures, pageCommands)
}

// commandTable is CommandTable with at most so many commands.
func commandTable(c *record.Commands, width int, byFailures bool, most int) *cli.Table {
	if c == nil || c.Reason != "" {
		return &cli.Table{}
	}
	t := &cli.Table{
		Width: width, Indent: "  ", Header: []string{
			"COMMAND", "STARTED", "FAILED", "CPU", "SHARE", "LARGEST", "READ", "WRITTEN",
			"WAITED FOR CPU",
		},
		Right: []int{1, 2, 3, 4, 5, 6, 7, 8}, Leave: []int{7, 6, 8, 5},
	}
	for _, row := range shownCommands(c, byFailures, most) {
		addCommand(t, &row, c.TotalCPUSeconds)
	}
	sums := func(name string, cpu *float64) {
		t.AddTexts(name, "", "", cli.Optional(procstats.Seconds, cpu), shareOf(cpu, c.TotalCPUSeconds))
	}
	sums("unattributed", c.UnattributedCPUSeconds)
	sums("total", c.TotalCPUSeconds)
	return t
}

// shownCommands returns the commands that have a row, and the others as one. With byFailures those with most failures
// come first.
func shownCommands(c *record.Commands, byFailures bool, most int) []procstats.Command {
	sorted := *c
	if byFailures {
		sorted.Rows = slices.Clone(c.Rows)
		slices.SortStableFunc(sorted.Rows, func(a, b procstats.Command) int { return cmp.Compare(b.Failed, a.Failed) })
	}
	rows, others := sorted.Split(most)
	if others != nil {
		others.Name = "others"
		rows = append(rows, *others)
	}
	return rows
}

func addCommand(t *cli.Table, row *procstats.Command, total *float64) {
	largest := procstats.Bytes.Text(float64(row.PeakRSSBytes))
	if row.PeakRSSGuarantee != procstats.Exact {
		largest = cli.GuaranteeText(row.PeakRSSGuarantee) + " " + largest
	}
	t.AddTexts(cli.Printable(row.Name), strconv.FormatInt(row.Processes, 10), strconv.FormatInt(row.Failed, 10),
		procstats.Seconds.Text(row.CPUSeconds),
		shareOf(&row.CPUSeconds, total), largest, optionalBytes(row.ReadBytes), optionalBytes(row.WrittenBytes),
		cli.Optional(procstats.Seconds, row.RunDelaySeconds))
}

func optionalBytes(n *int64) string {
	if n == nil {
		return procstats.NoValue
	}
	return procstats.Bytes.Text(float64(*n))
}

// failures writes how processes failed, one line a command, of so many commands.
func (p *Page) failures(c *record.Commands, most int) {
	for _, row := range shownCommands(c, p.FailedFirst, pageCommands) {
		if ways := row.FailureText(); ways != "" && most > 0 {
			most--
			p.line("%d of %d %s failed: %s", row.Failed, row.Processes, cli.Printable(row.Name), ways)
		}
	}
}

// summaryCommands is how many commands a summary names, and leastShare the share of the CPU time from which one is
// named.
const (
	summaryCommands = 3
	leastShare      = 0.05
)

// Commands names the commands that used most of the CPU time of a run; empty if that is one alone, or not known.
func Commands(r *record.Record) string {
	c := r.Commands
	if c == nil || len(c.Rows) < 2 || c.TotalCPUSeconds == nil {
		return "" // who used it is no question, or not known
	}
	var words []string
	for i := range c.Rows[:min(len(c.Rows), summaryCommands)] {
		row := &c.Rows[i]
		if row.CPUSeconds < leastShare**c.TotalCPUSeconds {
			break
		}
		word := cli.Printable(row.Name)
		if row.Processes > 1 {
			word += fmt.Sprintf(" ×%d", row.Processes)
		}
		words = append(words, word+" "+shareOf(&row.CPUSeconds, c.TotalCPUSeconds))
	}
	return strings.Join(words, ", ")
}
