// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"errors"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/procstats"
)

// mostCommands is how many commands have a row; the API and the record have up to 200.
const mostCommands = 15

// commandTable is what all processes that ended used, by command, however short they lived.
type commandTable struct {
	Rows                []commandRow
	Unattributed, Total string
	// Note says what the rows do not have; without rows, why there are none.
	Note string
}

// commandRow is one command; Ways says how its processes failed.
type commandRow struct {
	Name, Ways                                               string
	Processes, Failed, CPU, Share, Read, Written, RunDelayed string
	Largest                                                  number
}

// commands lists what the ended processes of a running task have used so far.
func (p *Page) commands(t task) *commandTable {
	c, err := p.agent.Commands(t.allocation.ID, t.state.Name)
	switch {
	case errors.Is(err, allocation.ErrNotFound):
		return &commandTable{Note: "Not recorded: the driver does not report the ends of processes."}
	case err != nil:
		return &commandTable{Note: "Not known: " + printable(err.Error())}
	}
	return commandsOf(c)
}

// commandsOf lists the commands with the most CPU time.
func commandsOf(c *record.Commands) *commandTable {
	switch {
	case c.Reason != "":
		return &commandTable{Note: "Not recorded: " + printable(c.Reason)}
	case len(c.Rows) == 0:
		return &commandTable{Note: "No process has ended yet."}
	}
	table := &commandTable{Unattributed: secondsText(c.UnattributedCPUSeconds), Total: secondsText(c.TotalCPUSeconds)}
	rows, others := c.Split(mostCommands)
	for i := range rows {
		table.Rows = append(table.Rows, commandOf(printable(rows[i].Name), &rows[i], c.TotalCPUSeconds))
	}
	if others != nil {
		table.Rows = append(table.Rows, commandOf("others", others, c.TotalCPUSeconds))
	}
	var notes []string
	if !c.Since.IsZero() {
		notes = append(notes, "Recorded since "+formatTime(c.Since)+".")
	}
	for _, gap := range c.Gaps {
		notes = append(notes, "Not recorded from "+formatTime(gap.From)+" to "+formatTime(gap.To)+".")
	}
	if c.LostRecords > 0 {
		notes = append(notes, procstats.Counted(c.LostRecords, "record", "records")+" lost: too many processes ended at once.")
	}
	table.Note = strings.Join(notes, " ")
	return table
}

func commandOf(name string, c *procstats.Command, total *float64) commandRow {
	row := commandRow{
		Name: name, Ways: c.FailureText(), Processes: procstats.None.Text(float64(c.Processes)), Failed: procstats.None.Text(float64(c.Failed)),
		CPU: procstats.Seconds.Text(c.CPUSeconds), Share: procstats.NoValue, RunDelayed: secondsText(c.RunDelaySeconds),
		Read: bytesText(c.ReadBytes), Written: bytesText(c.WrittenBytes), Largest: number{Text: procstats.Bytes.Text(float64(c.PeakRSSBytes))},
	}
	row.Largest.Mark, row.Largest.Words = markOf(c.PeakRSSGuarantee)
	row.Largest.Hint = "the largest resident set of one process: " + guaranteeWords(c.PeakRSSGuarantee)
	if total != nil && *total > 0 {
		row.Share = procstats.Share.Text(c.CPUSeconds / *total)
	}
	return row
}

func bytesText(n *int64) string {
	if n == nil {
		return procstats.NoValue
	}
	return procstats.Bytes.Text(float64(*n))
}
