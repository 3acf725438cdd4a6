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
	"time"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/procstats"
)

// ending is how a start of a task ended, with its totals.
type ending struct {
	Outcome, Class string
	// What the record says of the end; see record.End.
	Summary, OOM, LastReading, Remedy string

	At, Started, Wall string
	// When is At, as short as can be.
	When                string
	CPU, Peak           number
	Stall               string
	Headlines, Evidence []fact
	Absent              []fact
	Notes               []string
	Limits              []limitRow
	Command, Dir        string
	Samples, PeakAt     string
	Processes           []processRow
	ProcessesSum        *processSum
	Commands            *commandTable
	at                  time.Time
}

// fact is a name with a value.
type fact struct {
	Name  string
	Value number
}

// limitRow is a limit as requested and as the kernel enforces it.
type limitRow struct{ Name, Requested, Effective, Where string }

// endingOf says how a task ended, for untrusted readers; without a record it says what the task's state knows.
func endingOf(t task, r *record.Record) *ending {
	if r == nil {
		return endingWithoutRecord(t)
	}
	r = r.Redacted()
	e := &ending{
		Stall: printable(r.Diagnosis.StallText()), at: r.EndedAt, At: formatTime(r.EndedAt), When: formatDay(r.EndedAt), Started: formatTime(r.StartedAt),
		Wall: procstats.NoValue,
	}
	e.describe(r)
	if r.WallSeconds != nil {
		e.Wall = procstats.Seconds.Text(*r.WallSeconds)
	}
	e.CPU = recorded(r, procstats.HeadlineCPU)
	e.Peak = recorded(r, procstats.HeadlineMemoryPeak)
	return e
}

// describe uses the record's sentences.
func (e *ending) describe(r *record.Record) {
	end := r.End()
	e.Outcome, e.Class = outcomeText(end.Outcome), outcomeClass(end.Outcome)
	if e.Outcome == "" {
		e.Outcome = printable(string(r.State))
	}
	if end.OOM != "" {
		e.Class = "bad"
	}
	e.Summary, e.OOM = printable(end.Summary), printable(end.OOM)
	e.LastReading, e.Remedy = printable(end.LastReading), printable(end.Remedy)
}

func outcomeText(o record.Outcome) string { return strings.ReplaceAll(printable(string(o)), "_", " ") }

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
	s := t.state.State
	e := &ending{
		Outcome: t.condition().Word, Class: t.condition().Class, Summary: t.condition().Hint, at: s.FinishedAt,
		At: formatTime(s.FinishedAt), When: formatDay(s.FinishedAt), Started: formatTime(s.StartedAt), Wall: procstats.NoValue,
		CPU:  absent("cpu_seconds_total", "there is no final record"),
		Peak: absent("memory_peak_bytes", "there is no final record"),
	}
	if !s.StartedAt.IsZero() && s.FinishedAt.After(s.StartedAt) {
		e.Wall = procstats.Seconds.Text(s.FinishedAt.Sub(s.StartedAt).Seconds())
	}
	return e
}

// details adds what only the task's own page shows; trusted readers see what was run, too. For the others the record is
// redacted first, so that nothing below has to know who reads.
func (e *ending) details(r *record.Record, trusted bool) {
	if !trusted {
		r = r.Redacted()
	}
	for _, id := range headlineIDs() {
		if _, given := r.Headline[id.String()]; given {
			e.Headlines = append(e.Headlines, fact{Name: id.String(), Value: recorded(r, id)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		e.Absent = append(e.Absent, fact{Name: printable(name), Value: absent(name, r.Absent[name])})
	}
	for _, l := range r.Limits {
		e.Limits = append(e.Limits, limitOf(l))
	}
	e.Samples = strconv.FormatInt(r.Samples, 10)
	if often := r.SamplingText(); often != "" {
		e.Samples += ", " + often
	}
	if r.Peak != nil && !r.Peak.At.IsZero() {
		e.PeakAt = procstats.Bytes.Text(r.Peak.MemoryBytes) + " (" + printable(r.Peak.Measurement) + ") at " + formatTime(r.Peak.At)
		var largest []string
		for _, row := range r.Peak.Largest[:min(3, len(r.Peak.Largest))] {
			largest = append(largest, fmt.Sprintf("%s (%d)", printable(row.Command), row.PID))
		}
		if len(largest) > 0 {
			e.PeakAt += ", held by " + strings.Join(largest, ", ")
		}
	}
	if r.Processes != nil {
		e.Processes, e.ProcessesSum = recordedProcesses(r.Processes)
	}
	if r.Commands != nil && len(r.Commands.Rows) > 0 {
		e.Commands = commandsOf(r.Commands)
	}
	e.Notes = printableAll(record.Contradictions(r.Headline))
	if trusted {
		e.describe(r)
		e.secrets(r)
	}
}

// secrets adds what names commands and files, or may.
func (e *ending) secrets(r *record.Record) {
	e.Command, e.Dir = printable(commandLine(r.Command)), printable(r.Dir)
	for _, name := range slices.Sorted(maps.Keys(r.Diagnosis.Evidence)) {
		e.Evidence = append(e.Evidence, fact{Name: printable(name), Value: number{Text: evidenceText(name, r.Diagnosis.Evidence[name])}})
	}
	e.Notes = printableAll(r.AllNotes())
}

// printableAll makes texts safe to show.
func printableAll(texts []string) []string {
	shown := make([]string, 0, len(texts))
	for _, text := range texts {
		shown = append(shown, printable(text))
	}
	return shown
}

// headlineIDs are the headlines in the order of the table.
func headlineIDs() []procstats.ID {
	var ids []procstats.ID
	for _, m := range procstats.Table() {
		if m.Scope == procstats.HeadlineScope {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// recorded is a headline of a record.
func recorded(r *record.Record, id procstats.ID) number {
	name := id.String()
	h, ok := r.Headline[name]
	switch {
	case !ok:
		return absent(name, "it is not in the record")
	case h.Value == nil:
		return absent(name, h.Reason)
	}
	if h.Guarantee.Vacuous(*h.Value) {
		return vacuous(name)
	}
	m, _ := procstats.Lookup(id)
	return numberOf(name, m.Unit.Text(*h.Value), h.Source, h.Guarantee, r.EndedAt)
}

func limitOf(l record.Limit) limitRow {
	m, _ := procstats.LookupName(l.Name)
	text := func(value *float64, list string) string {
		switch {
		case list != "":
			return printable(list)
		case value == nil:
			return "none"
		}
		return m.Unit.Text(*value)
	}
	return limitRow{
		Name: printable(l.Name), Requested: text(l.Requested, l.RequestedText), Effective: text(l.Effective, l.EffectiveText), Where: printable(l.Where),
	}
}

// evidenceText writes what a diagnosis rests on: numbers in the unit that their names end in, all else as JSON.
func evidenceText(name string, value any) string {
	if n, ok := value.(float64); ok {
		return procstats.UnitOf(name).Text(n)
	}
	if s, ok := value.(string); ok {
		return printable(s)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return printable(fmt.Sprint(value))
	}
	return printable(string(text))
}

// commandLine quotes arguments that would not read as one.
func commandLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`;&|<>()*?[]#~") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
