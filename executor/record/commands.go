// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Commands is what the processes of a task used that have ended, by command: all of them, however short they lived.
// Rows, others and unattributed add up to the total.
type Commands struct {
	// Rows have the most CPU time first, at most 200, of which some are for commands that failed: see Split.
	Rows []procstats.Command `json:"rows"`
	// Others sums what has no row; its command is empty.
	Others *procstats.Command `json:"others,omitempty"`
	// UnattributedCPUSeconds closes the sum: live processes, those that ended in another cgroup, and lost records.
	// Signed. It is absent like the total, which is so also if the rows have more: processes that have joined the task
	// used it before.
	UnattributedCPUSeconds *float64 `json:"unattributed_cpu_seconds"`
	TotalCPUSeconds        *float64 `json:"total_cpu_seconds"`
	// LostRecords counts threads whose end was not recorded, because too many ended at once.
	LostRecords int64 `json:"lost_records"`
	// LeftProcesses counts those that began in the task's cgroup and did not end there.
	LeftProcesses int64 `json:"left_processes,omitempty"`
	// Since is when recording began of a task that was started before; what ended until then is unattributed.
	Since time.Time `json:"since,omitzero"`
	// Gaps are the times in which nothing was recorded, because what records was restarted; what ended then is
	// unattributed.
	Gaps []Gap `json:"gaps,omitempty"`
	// LastEnd is when the last process of the task ended, by the kernel; zero if that is not known.
	LastEnd time.Time `json:"-"`
	// Reason says why there are no rows, where there are none.
	Reason string `json:"reason,omitempty"`
}

// Notes say what is not in the rows, with times as text.
func (c *Commands) Notes(text func(time.Time) string) (notes []string) {
	if !c.Since.IsZero() {
		notes = append(notes, "recorded since "+text(c.Since))
	}
	for _, gap := range c.Gaps {
		notes = append(notes, "not recorded from "+text(gap.From)+" to "+text(gap.To))
	}
	if c.LostRecords > 0 {
		notes = append(notes, procstats.Counted(c.LostRecords, "record", "records")+" lost: too many processes ended at once")
	}
	if c.TotalCPUSeconds == nil && len(c.Rows) > 0 {
		notes = append(notes, "no shares: the total is unknown, or less than what processes used that joined the task later")
	}
	return notes
}

// Gap is a time in which the ends of processes were not recorded.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// reportRows bounds the rows of a line of usage.jsonl.
const reportRows = 20

// Report returns what is left of c for a line of usage.jsonl, closed with the task's total; nil if it is not known.
func (c *Commands) Report(total *float64) *Commands {
	report := &Commands{LostRecords: c.LostRecords, Since: c.Since, Gaps: c.Gaps}
	report.Rows, report.Others = c.Split(reportRows)
	report.CloseWith(total)
	return report
}

// commandRows bounds the rows of a record.
const commandRows = 200

// mostFailures bounds the ways of failing of the others.
const mostFailures = 16

// Split returns at most so many rows in their order, and the sum of all others; nil if there are none. A quarter is
// for commands that failed, those with the most failures, if they would have none among the first: what failed is
// often cheap.
func (c *Commands) Split(most int) (rows []procstats.Command, others *procstats.Command) {
	return c.split(most, most/4)
}

// First returns the same with none of the rows reserved for commands that failed.
func (c *Commands) First(most int) (rows []procstats.Command, others *procstats.Command) {
	return c.split(most, 0)
}

func (c *Commands) split(most, failed int) (rows []procstats.Command, others *procstats.Command) {
	shown := c.shown(most, failed)
	rows = make([]procstats.Command, 0, min(len(c.Rows), most))
	if c.Others != nil {
		others = new(*c.Others)
	}
	for i := range c.Rows {
		switch row := &c.Rows[i]; {
		case shown[i]:
			rows = append(rows, *row)
		case others == nil:
			others = new(*row)
			others.Name = ""
		default:
			others.Add(row)
		}
	}
	if others != nil && len(others.Failures) > mostFailures {
		others.Failures = others.Failures[:mostFailures]
	}
	return rows, others
}

// shown tells which rows have a place of their own, some of them because they failed: none without a name, which is a
// sum of others already.
func (c *Commands) shown(most, failed int) []bool {
	shown := make([]bool, len(c.Rows))
	var named []int
	for i := range c.Rows {
		if c.Rows[i].Name != "" {
			named = append(named, i)
		}
	}
	first := len(named)
	if first > most {
		first = most - failed
	}
	for _, i := range named[:first] {
		shown[i] = true
	}
	rest := named[first:]
	slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(c.Rows[b].Failed, c.Rows[a].Failed) })
	for _, i := range rest[:min(len(rest), most-first)] {
		shown[i] = true
	}
	return shown
}

// CloseWith bounds the rows, which are ordered by CPU time, and closes their sums with the task's total; nil if it is
// not known.
func (c *Commands) CloseWith(total *float64) {
	if c.Reason != "" {
		return
	}
	c.Rows, c.Others = c.Split(commandRows)
	// More than that was used before it joined the task, and is no share of it.
	if _, cpu := c.sum(); total != nil && cpu <= *total+max(0.020, *total/100) {
		c.TotalCPUSeconds, c.UnattributedCPUSeconds = total, new(*total-cpu)
	}
}

// Processes is how many have ended.
func (c *Commands) Processes() int64 {
	n, _ := c.sum()
	return n
}

// io is how many bytes the ended processes read from storage and handed over to be written; all is false unless these
// are all processes that the task had.
func (c *Commands) io() (read, written int64, all bool) {
	for row := range c.all() {
		if row.ReadBytes == nil || row.WrittenBytes == nil {
			return 0, 0, false
		}
		read, written = read+*row.ReadBytes, written+*row.WrittenBytes
	}
	whole := c.LostRecords == 0 && c.LeftProcesses == 0 && c.Since.IsZero() && len(c.Gaps) == 0
	return read, written, whole && (len(c.Rows) > 0 || c.Others != nil)
}

// all are the rows, and that of the others.
func (c *Commands) all() iter.Seq[*procstats.Command] {
	return func(yield func(*procstats.Command) bool) {
		for i := range c.Rows {
			if !yield(&c.Rows[i]) {
				return
			}
		}
		if c.Others != nil {
			yield(c.Others)
		}
	}
}

// sum is how many processes have ended, and the CPU seconds they used.
func (c *Commands) sum() (processes int64, cpu float64) {
	for row := range c.all() {
		processes += row.Processes
		cpu += row.CPUSeconds
	}
	return processes, cpu
}

// close puts into the exited row of the processes what is known of those that have ended: in place of the last
// samples of some of them, the last account of all. What the others used after their last sample is in it.
func (p *ProcessTable[M]) close(c *Commands) {
	if c == nil || c.Reason != "" || p.TotalCPUSeconds == nil || p.Exited.CPUSeconds == nil {
		return
	}
	inRows := *p.TotalCPUSeconds - *p.UnattributedCPUSeconds - *p.Exited.CPUSeconds
	processes, cpu := c.sum()
	exited := cpu - inRows
	if processes < int64(len(p.Rows)) || exited < *p.Exited.CPUSeconds {
		return // processes with a row have ended elsewhere, or are not recorded
	}
	if cpu > *p.TotalCPUSeconds+max(0.002, *p.TotalCPUSeconds/200) {
		return // some have joined the cgroup with time of their own
	}
	unattributed := *p.TotalCPUSeconds - cpu
	p.Exited = ProcessSum{Processes: processes - int64(len(p.Rows)), CPUSeconds: &exited}
	p.UnattributedCPUSeconds = &unattributed
}

// Handed is what a caller that counts the ended processes of a task beside its executor hands over: for the record,
// if the caller is not there at the end, and for its successor.
type Handed struct {
	// At is until when they were counted.
	At       time.Time `json:"at"`
	Commands *Commands `json:"commands"`
}

// Until returns them for a later time, until which nothing was counted any more.
func (h *Handed) Until(end time.Time) *Commands {
	c := *h.Commands
	c.addGap(h.At, end)
	return &c
}

// Continue adds what was counted until an earlier time, and says that nothing was counted between that and the time
// from which c was.
func (c *Commands) Continue(before *Handed, from time.Time) {
	earlier := before.Until(from)
	c.Since, c.Gaps = earlier.Since, earlier.Gaps
	c.LostRecords += earlier.LostRecords
	c.Rows = joinRows(earlier.Rows, c.Rows)
	if others := earlier.Others; others != nil && c.Others != nil {
		others = new(*others)
		others.Add(c.Others)
		c.Others = others
	} else if others != nil {
		c.Others = others
	}
}

// joinRows adds up rows by command; the one with the most CPU time is the first.
func joinRows(before, now []procstats.Command) []procstats.Command {
	all := make([]procstats.Command, 0, len(before)+len(now))
	at := make(map[string]int)
	for _, rows := range [][]procstats.Command{before, now} {
		for i := range rows {
			if k, known := at[rows[i].Name]; known {
				all[k].Add(&rows[i])
				continue
			}
			at[rows[i].Name] = len(all)
			all = append(all, rows[i])
		}
	}
	slices.SortStableFunc(all, func(a, b procstats.Command) int { return procstats.CompareCommands(&a, &b) })
	return all
}

// mostGaps bounds the gaps of a record; further ones are joined with the last, and with the time between them.
const mostGaps = 16

func (c *Commands) addGap(from, to time.Time) {
	if !to.After(from) {
		return
	}
	c.Gaps = slices.Clone(c.Gaps)
	if n := len(c.Gaps); n == mostGaps {
		c.Gaps[n-1].To = to
		return
	}
	c.Gaps = append(c.Gaps, Gap{From: from, To: to})
}
