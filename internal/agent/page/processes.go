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

// processSum closes the table: the rows, what has exited and what no sample saw add up to the total.
type processSum struct {
	Rows                        float64
	Exited, Unattributed, Total *float64
	Count, Omitted              int
	// ExitedCount is empty if it is not known.
	ExitedCount string
	// Adds says whether the sum was checked and holds, in a sentence.
	Adds string
	OK   bool
	// Why says what is missing.
	Why string
	// Read is how long before the reading the processes were read; empty if they were read with it.
	Read string
}

// processesOf lists the live processes of a reading as a tree.
func processesOf(s *procstats.Sample) ([]processRow, *processSum) {
	rows := make([]processRow, 0, len(s.Processes))
	for i := range s.Processes {
		rows = append(rows, processOf(s, &s.Processes[i], "it is not selected"))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	total := known(s.Task.Number(procstats.TreeCPUAtRows))
	exited, rest := known(s.Task.Number(procstats.TreeCPUExited)), known(s.Task.Number(procstats.TreeCPUUnattributed))
	sum := sumOf(rows, exited, rest, total, s.Omitted)
	if set, ok := s.RowsAt(); ok && s.Mono-set.Mono >= time.Second {
		sum.Read = procstats.AgeText(s.Mono - set.Mono)
	}
	if n, ok := s.Task.Number(procstats.TreeProcessesExited); ok {
		sum.ExitedCount = procstats.None.Text(n)
	}
	return asTree(rows), sum
}

// known is a value that was measured, else nil.
func known(value float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &value
}

// sumOf adds up CPU times, which are nil if they were not measured, and says whether they make the total; readings are
// rounded to a microsecond at the source.
func sumOf(rows []processRow, exited, rest, total *float64, omitted int) *processSum {
	sum, missing := 0.0, exited == nil || rest == nil || total == nil
	for _, r := range rows {
		if r.cpu == nil {
			missing = true
			continue
		}
		sum += *r.cpu
	}
	for i := range rows {
		rows[i].Share = shareText(rows[i].cpu, total)
	}
	p := &processSum{
		Rows: sum, Exited: exited, Unattributed: rest, Total: total, Count: len(rows), Omitted: omitted,
	}
	switch {
	case missing:
		p.Why = "A part of the sum was not measured, so it is not closed here."
		return p
	case omitted > 0:
		p.Why = "Some processes have no row, so the rows that are shown are not all of the sum."
		return p
	}
	if difference := sum + *exited + *rest - *total; math.Abs(difference) < 1e-3 {
		p.OK, p.Adds = true, "Rows, exited and unattributed add up to the total."
	} else {
		p.Adds = "The parts miss the total by " + procstats.Seconds.Text(difference) + "."
	}
	return p
}

func processOf(s *procstats.Sample, p *procstats.ProcessRow, missing string) processRow {
	r := processRow{PID: p.PID, PPID: p.PPID, Command: p.Command, State: procstats.NoValue}
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
	r.cpu = cmp.Or(known(p.Readings.Number(procstats.ProcessCPU)), known(p.Readings.Number(procstats.PortableProcessCPU)))
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
func recordedProcesses(p *record.Processes) ([]processRow, *processSum) {
	if len(p.Rows) == 0 {
		return nil, nil
	}
	rows := make([]processRow, 0, len(p.Rows))
	for _, row := range p.Rows {
		var readings procstats.Readings
		for _, id := range []procstats.ID{
			procstats.ProcessCPU, procstats.ProcessRSS, procstats.ProcessThreads, procstats.ProcessCmdline,
		} {
			switch value := row.Measurements[id.String()].(type) {
			case float64:
				readings.Put(procstats.NumberReading(id, value))
			case string:
				readings.Put(procstats.TextReading(id, value))
			}
		}
		process := &procstats.ProcessRow{PPID: row.PPID, Command: row.Command, Readings: readings}
		process.PID = row.PID
		rows = append(rows, processOf(&procstats.Sample{}, process, "it is not in the record"))
	}
	slices.SortStableFunc(rows, func(a, b processRow) int { return cmp.Compare(cpuOf(b), cpuOf(a)) })
	sum := sumOf(rows, p.Exited.CPUSeconds, p.UnattributedCPUSeconds, p.TotalCPUSeconds, p.Omitted)
	sum.ExitedCount = procstats.None.Text(float64(p.Exited.Processes))
	return rows, sum
}

// cpuOf sorts rows without a CPU time like those of none.
func cpuOf(r processRow) float64 {
	if r.cpu == nil {
		return 0
	}
	return *r.cpu
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
