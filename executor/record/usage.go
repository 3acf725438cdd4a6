// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"cmp"
	"slices"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// Usage is one line of usage.jsonl: what the task used from one report to the next. Between one line's To and
// the next line's From nothing was measured: a gap, never a zero.
type Usage struct {
	SchemaVersion string    `json:"schema_version"`
	From          time.Time `json:"from"`
	To            time.Time `json:"to"`
	// FromMono and ToMono are the same moments on CLOCK_MONOTONIC, in seconds since boot: rates divide by
	// their difference.
	FromMono float64 `json:"from_mono"`
	ToMono   float64 `json:"to_mono"`
	// Samples counts the collections between From and To.
	Samples int64 `json:"samples"`
	// Measurements maps a table name to what is left of its readings; Absent says why the others have none.
	Measurements map[string]Reduced       `json:"measurements"`
	Absent       map[string]string        `json:"absent,omitempty"`
	Headline     map[string]HeadlineValue `json:"headline,omitempty"`
	Processes    *ProcessTable[Reduced]   `json:"processes,omitempty"`
	// Commands is what all processes used that ended from the start of the task to To, by command: at most 20 rows,
	// and others. It is absent if that is not counted.
	Commands *Commands `json:"commands,omitempty"`
}

// Reduced is what is left of one measurement's readings over a window, in the unit of its row. Which fields are
// set follows from the kind: last, min, max and mean of a gauge, last, delta and rate of a counter, text of a
// label, tally of a category. A field that is nil was not measured.
type Reduced struct {
	Last *float64 `json:"last,omitempty"`
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`
	Mean *float64 `json:"mean,omitempty"`
	// Delta is the growth of a counter within the window, Rate the same per second.
	Delta *float64 `json:"delta,omitempty"`
	Rate  *float64 `json:"rate,omitempty"`
	// Text is the last value of a label.
	Text *string `json:"text,omitempty"`
	// Tally counts the samples in which each state of a category was seen.
	Tally map[string]int64 `json:"tally,omitempty"`
}

// field returns where a reduction is; nil for one that is not a number.
func (r *Reduced) field(reduction procstats.Reduction) **float64 {
	return [...]**float64{
		procstats.Last: &r.Last, procstats.Min: &r.Min, procstats.Max: &r.Max, procstats.Mean: &r.Mean,
		procstats.Delta: &r.Delta, procstats.Rate: &r.Rate, procstats.Tally: nil,
	}[reduction]
}

// NewUsage reduces a report's window to one line of usage.jsonl. rows is its last sample with process rows, cpus how
// many CPUs the machine has, 0 if that is not known.
func NewUsage(w *procstats.Window, rows *procstats.Sample, selection procstats.Selection, cpus int) *Usage {
	first, last := w.Span()
	u := &Usage{
		SchemaVersion: SchemaVersion,
		From:          first.Wall, To: last.Wall,
		FromMono: first.Mono.Seconds(), ToMono: last.Mono.Seconds(),
		Samples:      int64(w.Samples()),
		Measurements: map[string]Reduced{},
		Absent:       map[string]string{},
	}
	for _, m := range procstats.Table() {
		if m.Scope != procstats.TaskScope || !selection.Has(m.ID) {
			continue
		}
		reduced, reason := reduce(m, w.Reduce)
		if reason != "" {
			u.Absent[m.Name] = reason
			continue
		}
		u.Measurements[m.Name] = reduced
	}
	if rows != nil {
		u.Headline = Headlines(procstats.Headlines(rows, procstats.History{Window: w, CPUs: cpus}))
		u.Processes = usageProcesses(w, rows)
	}
	return u
}

// reduce takes every legal reduction of a measurement; reason is set where there is no last value at all.
func reduce(
	m procstats.Measurement, of func(procstats.ID, procstats.Reduction) (procstats.Reading, error),
) (r Reduced, reason string) {
	for _, reduction := range m.Kind.Reductions() {
		if reduction == procstats.Tally {
			continue
		}
		reading, err := of(m.ID, reduction)
		if err != nil {
			return r, err.Error()
		}
		if text, isText := reading.Text(); isText {
			r.Text = &text
			continue
		}
		number, present := reading.Number()
		if !present {
			if reduction == procstats.Last {
				return r, reading.Reason()
			}
			continue
		}
		*r.field(reduction) = &number
	}
	return r, ""
}

func usageProcesses(w *procstats.Window, rows *procstats.Sample) *ProcessTable[Reduced] {
	kept := mostCPU(rows.Processes)
	p := &ProcessTable[Reduced]{Rows: []TableRow[Reduced]{}, Omitted: rows.Omitted + len(rows.Processes) - len(kept)}
	seen := make(map[procstats.ProcessID]*procstats.ProcessWindow)
	for _, process := range w.Processes() {
		seen[process.ProcessID] = &process
	}
	// The rows are those of the last sample, so that they add up with its own exited and unattributed; the window
	// only adds what it reduced of them.
	for _, row := range kept {
		p.Rows = append(p.Rows, usageRow(row, seen[row.ProcessID]))
	}
	p.Exited.CPUSeconds = Known(rows.Task.Number(procstats.TreeCPUExited))
	exited, _ := rows.Task.Number(procstats.TreeProcessesExited)
	p.Exited.Processes = int64(exited)
	p.UnattributedCPUSeconds = Known(rows.Task.Number(procstats.TreeCPUUnattributed))
	p.TotalCPUSeconds = Known(cpuTotal(rows))
	if at, read := rows.Task.Number(procstats.TreeCPUAtRows); read { // the totals can be newer than the rows
		p.TotalCPUSeconds = &at
	}
	noRows := p.UnattributedCPUSeconds == nil && len(rows.Processes) == 0
	if p.TotalCPUSeconds != nil && (p.Omitted > 0 || noRows) {
		// The tree's own sum has processes without a row too, and is absent if there was no process to read.
		inExited, _ := rows.Task.Number(procstats.TreeCPUExited)
		p.UnattributedCPUSeconds = new(*p.TotalCPUSeconds - rowsCPU(kept) - inExited)
	}
	return p
}

// mostUsageRows is how many processes a line names: a row takes about 370 bytes, and a task can have thousands of
// processes.
const mostUsageRows = 8

// mostCPU returns the rows with the most CPU time, in their order.
func mostCPU(all []procstats.ProcessRow) []*procstats.ProcessRow {
	kept := make([]*procstats.ProcessRow, len(all))
	for i := range all {
		kept[i] = &all[i]
	}
	if len(kept) <= mostUsageRows {
		return kept
	}
	slices.SortStableFunc(kept, func(a, b *procstats.ProcessRow) int { return cmp.Compare(rowCPU(b), rowCPU(a)) })
	kept = kept[:mostUsageRows]
	slices.SortFunc(kept, func(a, b *procstats.ProcessRow) int { return cmp.Compare(a.PID, b.PID) })
	return kept
}

// Known returns a number, or nil if it was not measured.
func Known(value float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &value
}

// rowCPU is 0 if it was not measured.
func rowCPU(row *procstats.ProcessRow) float64 {
	used, _ := row.Readings.Number(procstats.ProcessCPU)
	return used
}

// rowsCPU returns the CPU seconds of the processes that have a row.
func rowsCPU(rows []*procstats.ProcessRow) (seconds float64) {
	for _, row := range rows {
		seconds += rowCPU(row)
	}
	return seconds
}

func usageRow(p *procstats.ProcessRow, w *procstats.ProcessWindow) TableRow[Reduced] {
	row := TableRow[Reduced]{
		PID: p.PID, StartTicks: p.Start, PPID: p.PPID, Command: p.Command, Measurements: map[string]Reduced{},
	}
	for _, reading := range p.Readings {
		m, known := procstats.Lookup(reading.ID())
		number, present := reading.Number()
		if !known || !present || m.Kind == procstats.Category || m.Kind == procstats.Label {
			continue
		}
		var reduced Reduced
		if w != nil {
			reduced, _ = reduce(m, w.Reduce)
		}
		reduced.Last = &number
		row.Measurements[m.Name] = reduced
	}
	if w == nil {
		return row
	}
	row.States = statesOf(w)
	return row
}

// statesOf counts the samples in which a process was seen in each state; nil if no state was read.
func statesOf(w *procstats.ProcessWindow) map[string]int64 {
	tally := w.Tally(procstats.ProcessState)
	if len(tally) == 0 {
		return nil
	}
	states := make(map[string]int64, len(tally))
	for state, samples := range tally {
		states[state] = int64(samples)
	}
	return states
}
