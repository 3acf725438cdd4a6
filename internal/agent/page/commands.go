// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"errors"
	"slices"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/procstats"
)

// mostCommands is how many commands have a row; the API and the record have up to 200.
const mostCommands = 15

// commandTable is what all processes that ended used, by command, however short they lived.
type commandTable struct {
	*record.Commands
	// Shown are the commands with the most CPU time, and the others as one.
	Shown []procstats.Command
	// Note says what the rows do not have; without rows, why there are none.
	Note string
}

// commands lists what the ended processes of a running task have used so far.
func (p *Page) commands(t task) *commandTable {
	c, err := p.agent.Commands(t.ID(), t.Name())
	switch {
	case errors.Is(err, allocation.ErrNotFound):
		return &commandTable{Note: "Not recorded: the driver does not report the ends of processes."}
	case err != nil:
		return &commandTable{Note: "Not known: " + err.Error()}
	}
	return commandsOf(c)
}

func commandsOf(c *record.Commands) *commandTable {
	switch {
	case c.Reason != "":
		return &commandTable{Note: "Not recorded: " + c.Reason}
	case len(c.Rows) == 0:
		return &commandTable{Note: "No process has ended yet."}
	}
	rows, others := c.Split(mostCommands)
	table := &commandTable{Commands: c, Shown: rows}
	if others != nil {
		others.Name = "others"
		table.Shown = append(slices.Clip(rows), *others)
	}
	var notes []string
	if !c.Since.IsZero() {
		notes = append(notes, "Recorded since "+formatTime(c.Since)+".")
	}
	for _, gap := range c.Gaps {
		notes = append(notes, "Not recorded from "+formatTime(gap.From)+" to "+formatTime(gap.To)+".")
	}
	if c.LostRecords > 0 {
		lost := procstats.Counted(c.LostRecords, "record", "records")
		notes = append(notes, lost+" lost: too many processes ended at once.")
	}
	table.Note = strings.Join(notes, " ")
	return table
}

// largest is the largest resident set of one process of a command.
func largest(c *procstats.Command) number {
	n := number{Text: procstats.Bytes.Text(float64(c.PeakRSSBytes))}
	n.Mark, n.Words = markOf(c.PeakRSSGuarantee)
	n.Hint = "the largest resident set of one process: " + guaranteeWords(c.PeakRSSGuarantee)
	return n
}
