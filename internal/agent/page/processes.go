// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/internal/agent/allocation"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// processRow is one process of a task.
type processRow struct {
	PID, PPID int
	// Depth is how many ancestors of it are in the table.
	Depth   int
	Indent  string
	Command string
	// Line is the command line; empty if it is unknown or not shown.
	Line     string
	CPU, RSS number
	// Share is the part of the task's CPU time that it used, live or in the record.
	Share   string
	State   string
	Threads number
	// cpu is the CPU time in seconds; nil if it was not measured.
	cpu *float64
}

// processTable is the processes of a task, and what closes the sum: the rows, what has exited and what no sample saw
// add up to the total. CPU times are nil if they were not measured.
type processTable struct {
	Rows                        []processRow
	Listed                      float64 // CPU time of the rows
	Exited, Unattributed, Total *float64
	Omitted                     int
	ExitedCount                 *float64
	// Missing says that a part was not measured; Miss is how far the parts are from the total.
	Missing bool
	Miss    float64
	// Read is how long before the reading the processes were read; empty if they were read with it.
	Read string
}

// processesOf lists the live processes of a reading as a tree; nil if there are none.
func processesOf(s *procstats.Sample) *processTable {
	t := &processTable{
		Exited: record.Known(s.Task.Number(procstats.TreeCPUExited)), Omitted: s.Omitted,
		Unattributed: record.Known(s.Task.Number(procstats.TreeCPUUnattributed)),
		Total:        record.Known(s.Task.Number(procstats.TreeCPUAtRows)),
		ExitedCount:  record.Known(s.Task.Number(procstats.TreeProcessesExited)),
	}
	for i := range s.Processes {
		t.Rows = append(t.Rows, processOf(s, &s.Processes[i], "it is not selected"))
	}
	if set, ok := s.RowsAt(); ok && s.Mono-set.Mono >= time.Second {
		t.Read = procstats.AgeText(s.Mono - set.Mono)
	}
	return t.sum(asTree(t.Rows))
}

// sum completes a table with its rows in their order; nil without any.
func (t *processTable) sum(rows []processRow) *processTable {
	if len(rows) == 0 {
		return nil
	}
	t.Rows, t.Missing = rows, t.Exited == nil || t.Unattributed == nil || t.Total == nil
	for i := range rows {
		if rows[i].cpu == nil {
			t.Missing = true
			continue
		}
		t.Listed += *rows[i].cpu
		rows[i].Share = shareText(rows[i].cpu, t.Total)
	}
	if !t.Missing {
		t.Miss = t.Listed + *t.Exited + *t.Unattributed - *t.Total
	}
	return t
}

// Busiest is the share of the CPU time of the live process that used most, with its name; empty if unknown.
func (t *processTable) Busiest() (text string) {
	most := 0.0
	for _, row := range t.Rows {
		if row.cpu != nil && t.Total != nil && *row.cpu > most {
			most, text = *row.cpu, row.Share+" by "+row.Command
		}
	}
	return text
}

// Closed reports whether the sum was checked and holds; readings are rounded to a microsecond at the source.
func (t *processTable) Closed() bool { return !t.Missing && t.Omitted == 0 && math.Abs(t.Miss) < 1e-3 }

func processOf(s *procstats.Sample, p *procstats.ProcessRow, missing string) processRow {
	r := processRow{PID: p.PID, PPID: p.PPID, Command: p.Command, State: procstats.NoValue, Share: procstats.NoValue}
	first := func(ids ...procstats.ID) number {
		for _, id := range ids {
			if found, ok := p.Readings.Get(id); ok {
				return reading(s, found)
			}
		}
		return absent(ids[0].String(), missing)
	}
	r.CPU = first(procstats.ProcessCPU, procstats.PortableProcessCPU)
	r.RSS = first(procstats.ProcessRSS, procstats.PortableProcessRSS)
	r.Threads = first(procstats.ProcessThreads)
	r.cpu = cmp.Or(record.Known(p.Readings.Number(procstats.ProcessCPU)),
		record.Known(p.Readings.Number(procstats.PortableProcessCPU)))
	if state, ok := p.Readings.Get(procstats.ProcessState); ok {
		if text, ok := state.Text(); ok {
			r.State = stateWord(text)
		}
	}
	if line, ok := p.Readings.Get(procstats.ProcessCmdline); ok {
		r.Line, _ = line.Text()
	}
	return r
}

// stateWord is a process state of proc_pid_stat(5) in a word.
func stateWord(state string) string {
	words := map[string]string{
		"R": "running", "S": "sleeping", "D": "waiting for I/O", "Z": "zombie", "T": "stopped", "t": "traced",
		"I": "idle", "X": "dead",
	}
	return cmp.Or(words[state], state)
}

// asTree orders processes so that children follow their parents.
func asTree(rows []processRow) []processRow {
	tree := make([]processRow, 0, len(rows))
	for _, b := range procstats.Tree(rows, func(r *processRow) (pid, parent int) { return r.PID, r.PPID }) {
		r := *b.Process
		r.Depth, r.Indent = b.Depth, strings.Repeat("\u2003", min(b.Depth, mostIndent))
		tree = append(tree, r)
	}
	return tree
}

// mostIndent keeps deep trees on the page.
const mostIndent = 8

// recordedProcesses are the processes of a final record, those with most CPU time first.
func recordedProcesses(p *record.Processes) *processTable {
	if p == nil {
		return nil
	}
	t := &processTable{
		Exited: p.Exited.CPUSeconds, Unattributed: p.UnattributedCPUSeconds, Total: p.TotalCPUSeconds, Omitted: p.Omitted,
		ExitedCount: new(float64(p.Exited.Processes)),
	}
	for _, row := range p.Rows {
		process := procstats.ProcessRow{
			ProcessID: procstats.ProcessID{PID: row.PID}, PPID: row.PPID, Command: row.Command,
		}
		for _, id := range []procstats.ID{
			procstats.ProcessCPU, procstats.ProcessRSS, procstats.ProcessThreads, procstats.ProcessCmdline,
		} {
			switch value := row.Measurements[id.String()].(type) {
			case float64:
				process.Readings.Put(procstats.NumberReading(id, value))
			case string:
				process.Readings.Put(procstats.TextReading(id, value))
			}
		}
		t.Rows = append(t.Rows, processOf(&procstats.Sample{}, &process, "it is not in the record"))
	}
	used := func(r processRow) float64 { return *cmp.Or(r.cpu, new(0.0)) }
	slices.SortStableFunc(t.Rows, func(a, b processRow) int { return cmp.Compare(used(b), used(a)) })
	return t.sum(t.Rows)
}

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
	notes := c.Notes(formatTime)
	for i, note := range notes {
		notes[i] = strings.ToUpper(note[:1]) + note[1:] + "."
	}
	table.Note = strings.Join(notes, " ")
	return table
}

// largest is the largest resident set of one process of a command.
func largest(c *procstats.Command) number {
	mark, words, full := guaranteeText(c.PeakRSSGuarantee)
	return number{
		Text: procstats.Bytes.Text(float64(c.PeakRSSBytes)), Mark: mark, Words: words,
		Hint: "the largest resident set of one process: " + full,
	}
}
