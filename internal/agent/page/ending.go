// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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
	CPU, Peak    number
	// The rest is only on the task's own page.
	Headlines, Facts, Missing []fact
	Notes                     []string
	Rows                      []processRow
	Sum                       *processSum
	ByCommand                 *commandTable
}

// fact is a name with a value.
type fact struct {
	Name  string
	Value number
}

// endingOf says how a task ended, for untrusted readers; without a record it says what the task's state knows.
func endingOf(t task, r *record.Record) *ending {
	if r == nil {
		return endingWithoutRecord(t)
	}
	e := &ending{}
	e.describe(r.Redacted())
	e.CPU, e.Peak = recorded(e.Record, procstats.HeadlineCPU), recorded(e.Record, procstats.HeadlineMemoryPeak)
	return e
}

// describe uses the sentences of a record.
func (e *ending) describe(r *record.Record) {
	e.Record, e.End = r, r.End()
	if e.Label, e.Class = outcomeText(e.Outcome), outcomeClass(e.Outcome); e.Label == "" {
		e.Label = string(r.State)
	}
	if e.OOM != "" {
		e.Class = "bad"
	}
}

func outcomeText(o record.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }

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

// details adds what only the task's own page shows. Untrusted readers get nothing but the redacted record, so that
// nothing below has to know who reads.
func (e *ending) details(r *record.Record, trusted bool) {
	if trusted {
		e.describe(r)
		for _, name := range slices.Sorted(maps.Keys(r.Diagnosis.Evidence)) {
			e.Facts = append(e.Facts, fact{name, number{Text: evidenceText(name, r.Diagnosis.Evidence[name])}})
		}
	}
	for _, h := range record.HeadlineList(e.Headline) {
		e.Headlines = append(e.Headlines, fact{h.ID.String(), recorded(e.Record, h.ID)})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Absent)) {
		e.Missing = append(e.Missing, fact{name, absent(name, e.Absent[name])})
	}
	e.Notes = e.AllNotes()
	if e.Processes != nil {
		e.Rows, e.Sum = recordedProcesses(e.Processes)
	}
	if e.Commands != nil && len(e.Commands.Rows) > 0 {
		e.ByCommand = commandsOf(e.Commands)
	}
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
