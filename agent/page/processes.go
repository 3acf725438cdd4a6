// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// processRow is one process of a task.
type processRow struct {
	PID, PPID int
	// Depth is how many ancestors of it are in the table.
	Depth    int
	Indent   string
	Command  string
	CPU, RSS number
	State    string
	Threads  number
	cpu      float64
	measured bool
}

// processSum closes the table: the rows, what has exited and what nobody saw add up to the total.
type processSum struct {
	Rows, Exited, Unattributed, Total string
	Count, ExitedCount                string
	Omitted                           int
	// Adds says whether the sum was checked and holds, in a sentence.
	Adds string
	OK   bool
	// Why says what is missing.
	Why string
}

// processesOf lists the live processes of a reading as a tree.
func processesOf(s *procstats.Sample) ([]processRow, *processSum) {
	rows := make([]processRow, 0, len(s.Processes))
	for i := range s.Processes {
		rows = append(rows, processOf(s, &s.Processes[i]))
	}
	sum := 0.0
	measured := len(rows) > 0
	for _, r := range rows {
		sum += r.cpu
		measured = measured && r.measured
	}
	tree := asTree(rows)
	if len(rows) == 0 {
		return nil, nil
	}
	exited, okExited := s.Task.Number(procstats.TreeCPUExited)
	rest, okRest := s.Task.Number(procstats.TreeCPUUnattributed)
	total, okTotal := headlineValueOf(s)
	p := &processSum{Omitted: s.Omitted, Count: procstats.None.Text(float64(len(rows))), Rows: procstats.Seconds.Text(sum)}
	if n, ok := s.Task.Number(procstats.TreeProcessesExited); ok {
		p.ExitedCount = procstats.None.Text(n)
	}
	p.close(closing{sum, exited, rest, total, measured && okExited && okRest && okTotal})
	p.Exited, p.Unattributed, p.Total = secondsOr(exited, okExited), secondsOr(rest, okRest), secondsOr(total, okTotal)
	return tree, p
}

// headlineValueOf is the CPU time of the whole task.
func headlineValueOf(s *procstats.Sample) (float64, bool) {
	return headlineValue(procstats.Headlines(s, procstats.History{}), procstats.HeadlineCPU)
}

// closing are the parts of a sum.
type closing struct {
	rows, exited, rest, total float64
	complete                  bool
}

// close says whether the parts add up; readings are rounded to a microsecond at the source.
func (p *processSum) close(c closing) {
	difference := c.rows + c.exited + c.rest - c.total
	switch {
	case !c.complete:
		p.Why = "A part of the sum was not measured, so it is not closed here."
	case p.Omitted > 0:
		p.Why = "Some processes have no row, so the rows that are shown are not all of the sum."
	case difference < 1e-3 && difference > -1e-3:
		p.OK = true
		p.Adds = "Rows, exited and unattributed add up to the total."
	default:
		p.Adds = "The parts miss the total by " + procstats.Seconds.Text(difference) + "."
	}
}

func secondsOr(value float64, ok bool) string {
	if !ok {
		return procstats.NoValue
	}
	return procstats.Seconds.Text(value)
}

func processOf(s *procstats.Sample, p *procstats.ProcessRow) processRow {
	r := processRow{PID: p.PID, PPID: p.PPID, Command: printable(p.Command), State: procstats.NoValue}
	first := func(ids ...procstats.ID) number {
		for _, id := range ids {
			if found, ok := p.Readings.Get(id); ok {
				return reading(s, found)
			}
		}
		return absent(ids[0].String(), "it is not selected")
	}
	r.CPU = first(procstats.ProcessCPU, procstats.PortableProcessCPU)
	r.RSS = first(procstats.ProcessRSS, procstats.PortableProcessRSS)
	r.Threads = first(procstats.ProcessThreads)
	if r.cpu, r.measured = p.Readings.Number(procstats.ProcessCPU); !r.measured {
		r.cpu, r.measured = p.Readings.Number(procstats.PortableProcessCPU)
	}
	if state, ok := p.Readings.Get(procstats.ProcessState); ok {
		if text, ok := state.Text(); ok {
			r.State = stateWord(text)
		}
	}
	return r
}

// stateWord is a process state of proc_pid_stat(5) in a word.
func stateWord(state string) string {
	words := map[string]string{
		"R": "running", "S": "sleeping", "D": "waiting for I/O", "Z": "zombie", "T": "stopped", "t": "traced", "I": "idle", "X": "dead",
	}
	return cmp.Or(words[state], printable(state))
}

// asTree orders processes so that children follow their parents, by PID on each level.
func asTree(rows []processRow) []processRow {
	children := map[int][]int{}
	present := map[int]bool{}
	for _, r := range rows {
		present[r.PID] = true
	}
	var roots []int
	for i, r := range rows {
		if present[r.PPID] && r.PPID != r.PID {
			children[r.PPID] = append(children[r.PPID], i)
		} else {
			roots = append(roots, i)
		}
	}
	tree := make([]processRow, 0, len(rows))
	placed := make([]bool, len(rows))
	var place func(i, depth int)
	place = func(i, depth int) {
		if placed[i] {
			return
		}
		placed[i] = true
		r := rows[i]
		r.Depth = depth
		r.Indent = strings.Repeat("\u2003", min(depth, mostIndent))
		tree = append(tree, r)
		for _, child := range children[r.PID] {
			place(child, depth+1)
		}
	}
	for _, i := range roots {
		place(i, 0)
	}
	for i := range rows { // parents of each other, from readings of different moments
		place(i, 0)
	}
	return tree
}

// mostIndent keeps deep trees on the page.
const mostIndent = 8

// recordedProcesses are the processes of a final record, those with most CPU time first.
func recordedProcesses(p *record.Processes) ([]processRow, *processSum) {
	var rows []processRow
	sum, measured := 0.0, true
	for _, row := range p.Rows {
		r := processRow{PID: row.PID, PPID: row.PPID, Command: printable(row.Command), State: procstats.NoValue}
		r.CPU = recordedValue(row, procstats.ProcessCPU)
		r.RSS = recordedValue(row, procstats.ProcessRSS)
		r.Threads = recordedValue(row, procstats.ProcessThreads)
		if r.cpu, r.measured = row.Measurements[procstats.ProcessCPU.String()].(float64); !r.measured {
			measured = false
		}
		sum += r.cpu
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(rows, func(a, b processRow) int { return cmp.Compare(b.cpu, a.cpu) })
	value := func(v *float64) (float64, bool) {
		if v == nil {
			return 0, false
		}
		return *v, true
	}
	exited, okExited := value(p.Exited.CPUSeconds)
	rest, okRest := value(p.UnattributedCPUSeconds)
	total, okTotal := value(p.TotalCPUSeconds)
	s := &processSum{
		Rows: procstats.Seconds.Text(sum), Count: procstats.None.Text(float64(len(rows))), Omitted: p.Omitted,
		ExitedCount: procstats.None.Text(float64(p.Exited.Processes)),
		Exited:      secondsOr(exited, okExited), Unattributed: secondsOr(rest, okRest), Total: secondsOr(total, okTotal),
	}
	s.close(closing{sum, exited, rest, total, measured && okExited && okRest && okTotal})
	return rows, s
}

func recordedValue(row record.ProcessRow, id procstats.ID) number {
	m, _ := procstats.Lookup(id)
	value, ok := row.Measurements[m.Name].(float64)
	if !ok {
		return absent(m.Name, "it is not in the record")
	}
	return numberOf(m.Name, m.Unit.Text(value), m.File, m.Guarantee, time.Time{})
}
