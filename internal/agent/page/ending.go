// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// ending is how a start of a task ended, with its totals.
type ending struct {
	record.End
	*record.Record
	// Label and Class are the outcome as a chip shows it.
	Label, Class string
	// Title says when, for the page of the task.
	Title     string
	CPU, Peak number
}

// fact is a name with a value.
type fact struct {
	Name  string
	Value number
}

// endingOf says how a task ended; without a record it says what the task's state knows. Untrusted readers get nothing
// but the redacted record, so that nothing below has to know who reads.
func endingOf(t task, r *record.Record, trusted bool) *ending {
	if r == nil {
		return endingWithoutRecord(t)
	}
	if !trusted {
		r = r.Redacted()
	}
	e := &ending{
		Record: r, End: r.End(),
		CPU: recorded(r, procstats.HeadlineCPU), Peak: recorded(r, procstats.HeadlineMemoryPeak),
	}
	if e.Label, e.Class = e.Outcome.Text(), outcomeClass(e.Outcome); e.Label == "" {
		e.Label = string(r.State)
	}
	if e.OOM != "" {
		e.Class = "bad"
	}
	return e
}

func outcomeClass(o record.Outcome) string {
	switch record.Verdict(o) {
	case "", record.Completed, record.Stopped:
		return "quiet"
	case record.TimedOut:
		return "warn"
	case record.Failed, record.Signaled, record.StartFailed, record.ExecutorLost:
	}
	return "bad"
}

func endingWithoutRecord(t task) *ending {
	const why = "there is no final record"
	s, c := t.state.State, t.condition()
	e := &ending{
		End: record.End{Summary: c.Hint}, Label: c.Word, Class: c.Class,
		Record: &record.Record{StartedAt: s.StartedAt, EndedAt: s.FinishedAt},
		CPU:    absent("cpu_seconds_total", why), Peak: absent("memory_peak_bytes", why),
	}
	if !s.StartedAt.IsZero() && s.FinishedAt.After(s.StartedAt) {
		e.WallSeconds = new(s.FinishedAt.Sub(s.StartedAt).Seconds())
	}
	return e
}

// Headlines are those of the record.
func (e *ending) Headlines() (list []fact) {
	for _, h := range record.HeadlineList(e.Headline) {
		list = append(list, fact{h.ID.String(), recorded(e.Record, h.ID)})
	}
	return list
}

// ByProcess is nil if the record has no processes.
func (e *ending) ByProcess() *processTable { return recordedProcesses(e.Processes) }

// ByCommand is nil if the record has no commands.
func (e *ending) ByCommand() *commandTable {
	if e.Commands == nil || len(e.Commands.Rows) == 0 {
		return nil
	}
	return commandsOf(e.Commands)
}

// Sampled says how often the task was sampled.
func (e *ending) Sampled() string {
	text := strconv.FormatInt(e.Samples, 10)
	if often := e.SamplingText(); often != "" {
		text += ", " + often
	}
	return text
}

// PeakText says when memory was highest, and who held it.
func (e *ending) PeakText() string {
	p := e.Record.Peak
	if p == nil || p.At.IsZero() {
		return ""
	}
	text := procstats.Bytes.Text(p.MemoryBytes) + " (" + p.Measurement + ") at " + formatTime(p.At)
	var largest []string
	for _, row := range p.Largest[:min(3, len(p.Largest))] {
		largest = append(largest, fmt.Sprintf("%s (%d)", row.Command, row.PID))
	}
	if len(largest) > 0 {
		text += ", held by " + strings.Join(largest, ", ")
	}
	return text
}

// CommandLine quotes arguments that would not read as one.
func (e *ending) CommandLine() string {
	quoted := make([]string, len(e.Command))
	for i, arg := range e.Command {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`;&|<>()*?[]#~") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// LimitRows are the limits of the record.
func (e *ending) LimitRows() (rows []limitRow) {
	for _, l := range e.Limits {
		m, _ := procstats.LookupName(l.Name)
		text := func(value *float64, list string) string {
			switch {
			case list != "":
				return list
			case value == nil:
				return "none"
			}
			return m.Unit.Text(*value)
		}
		rows = append(rows, limitRow{l.Name, text(l.Requested, l.RequestedText), text(l.Effective, l.EffectiveText), l.Where})
	}
	return rows
}

// recorded is a headline of a record.
func recorded(r *record.Record, id procstats.ID) number {
	m, _ := procstats.Lookup(id)
	return headlineAt(record.HeadlineList(r.Headline), id, m.Unit.Text, "it is not in the record", r.EndedAt)
}

// evidenceText writes what a diagnosis rests on: numbers in the unit that their names end in, all else as JSON.
func evidenceText(name string, value any) string {
	switch value := value.(type) {
	case float64:
		return procstats.UnitOf(name).Text(value)
	case string:
		return value
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
