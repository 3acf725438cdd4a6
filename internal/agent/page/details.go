// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tachograph/tacho/executor/record"
	"github.com/tachograph/tacho/hook"
	"github.com/tachograph/tacho/internal/agent/allocation"
	"github.com/tachograph/tacho/internal/agent/datadir"
	"github.com/tachograph/tacho/internal/agent/job"
	"github.com/tachograph/tacho/internal/agent/snapshot"
	"github.com/tachograph/tacho/procstats"
)

// ended says how the last start of a task ended; nil if none has, or if the task runs and there is no record.
func (p *Page) ended(t task, trusted bool) *ending {
	if !t.dead() && t.state.State.Exit == nil {
		return nil
	}
	r := p.past.lastRecord(t)
	if r == nil && !t.dead() {
		return nil
	}
	return endingOf(t, r, trusted)
}

// mostAdvisers is how many records the advice on a page is from.
const mostAdvisers = 50

// advice says what resources to ask for, in sentences: from the record of the last end in each allocation of the job,
// the newest first.
func (p *Page) advice(now *snapshot.Agent, t task) []string {
	var records []*record.Record
	for _, a := range slices.Backward(now.Allocations) {
		state := a.Tasks[t.state.Name]
		if a.JobID != t.allocation.JobID || a.Group != t.allocation.Group || state == nil || state.State.Exit == nil {
			continue
		}
		if r := p.past.lastRecord(task{allocation: a, state: state}); r != nil {
			records = append(records, r)
		}
		if len(records) == mostAdvisers {
			break
		}
	}
	if len(records) == 0 {
		return nil
	}
	return record.AdviseTask(records).Why
}

// limitRow is a limit as requested and as the kernel enforces it.
type limitRow struct{ Name, Requested, Effective, Where string }

// limitAttribute is the prefix of the driver's attributes with effective limits.
const limitAttribute = "limit."

// limitsOf lists the requested limits beside the effective ones.
func limitsOf(t task) []limitRow {
	_, attributes := t.state.Details()
	effective := map[string]string{}
	for key, value := range attributes {
		if name, ok := strings.CutPrefix(key, limitAttribute); ok {
			effective[name] = value
		}
	}
	if s := t.usage.Sample; s != nil && t.usage.Running {
		for _, id := range []procstats.ID{
			procstats.CgroupMemoryMax, procstats.CgroupMemoryHigh, procstats.CgroupCPUQuota, procstats.CgroupCPUWeight,
			procstats.CgroupCPUShares, procstats.CgroupPidsMax,
		} {
			if found, ok := s.Task.Get(id); ok && found.Present() {
				effective[id.String()] = reading(s, found).Text
			}
		}
	}
	if t.state.Cores != "" {
		effective["cpuset"] = "cores " + t.state.Cores
	}
	requested := requestedLimits(t.state.Resources, effective)
	names := maps.Clone(effective)
	maps.Copy(names, requested)
	var rows []limitRow
	for _, name := range slices.Sorted(maps.Keys(names)) {
		rows = append(rows, limitRow{
			Name: name, Requested: cmp.Or(requested[name], procstats.NoValue),
			Effective: cmp.Or(effective[name], procstats.NoValue),
		})
	}
	return rows
}

// requestedLimits are those of the job file, under the names that the effective ones have.
func requestedLimits(r job.Resources, effective map[string]string) map[string]string {
	requested := map[string]string{}
	if limit := r.MemoryLimitBytes(); limit > 0 {
		requested[procstats.CgroupMemoryMax.String()] = procstats.Bytes.Text(float64(limit))
	}
	if r.CPU > 0 {
		name := procstats.CgroupCPUWeight.String()
		if v1 := procstats.CgroupCPUShares.String(); effective[v1] != "" {
			name = v1
		}
		requested[name] = strconv.Itoa(r.CPU) + " MHz, by weight"
	}
	if r.Cores > 0 {
		requested["cpuset"] = procstats.Counted(r.Cores, "core", "cores")
	}
	return requested
}

// eventsOf lists a task's events, the newest first. Some messages are for trusted readers only.
func eventsOf(events []allocation.Event, trusted bool) (rows []eventRow) {
	for i := range slices.Backward(events) {
		e := &events[i]
		message, _ := e.MessageFor(trusted)
		row := eventRow{When: e.Time, Type: string(e.Type), Message: message}
		switch e.Type {
		case hook.EventDriverFailure, hook.EventHookFailed, hook.EventKillFailed, hook.EventNotRestarting:
			row.Class = "bad"
		case hook.EventTerminated, hook.EventRestarting, hook.EventRestartSignal:
			row.Class = "warn"
		}
		rows = append(rows, row)
	}
	return rows
}

// logTail is the end of what a task wrote.
type logTail struct {
	Stream, Text string
	// Cut says that there is more before it.
	Cut bool
}

// mostLog is how many bytes of a log a page shows.
const mostLog = 8 << 10

// logs reads the ends of a task's logs.
func (p *Page) logs(t task) []logTail {
	var tails []logTail
	for _, stream := range []string{"stdout", "stderr"} {
		if tail, err := tailOf(t, stream); err == nil {
			tails = append(tails, tail)
		} else {
			p.log.Debug("read log", "task", t.state.Name, "stream", stream, "error", err)
		}
	}
	return tails
}

func tailOf(t task, stream string) (tail logTail, err error) {
	f, err := t.allocation.Dir.OpenLog(t.state.Name, stream, datadir.WholeLog)
	if err != nil {
		return tail, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, size-mostLog), io.SeekStart)
	}
	if err != nil {
		return tail, fmt.Errorf("seek in %s: %w", stream, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, mostLog))
	if err != nil {
		return tail, fmt.Errorf("read %s: %w", stream, err)
	}
	tail = logTail{Stream: stream, Cut: size > mostLog}
	if _, rest, ok := bytes.Cut(content, []byte("\n")); ok && tail.Cut { // begin with a whole line
		content = rest
	}
	tail.Text = strings.NewReplacer("\r", "", "\x1b", "").Replace(string(escapes.ReplaceAll(content, nil)))
	return tail, nil
}

// escapes are the control sequences of terminals, such as colours, ECMA-48, 5.4.
var escapes = regexp.MustCompile("\x1b\\[[^@-~]*[@-~]?")

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
		requested, effective := l.Texts()
		rows = append(rows, limitRow{l.Name, requested, effective, l.Where})
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
