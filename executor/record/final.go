// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// finalRows bounds the process rows of a final record; the rest is summed in its exited row.
const finalRows = 50

// trueAfterEnd are gauges that still say something when the task is gone: peaks, limits, what is left on disk or to
// write, and what closes the sum of the CPU time by process: the processes of the last sample are among its exited
// ones by then. The others are taken from the last sample while it lived; a memory.current of an empty cgroup is not
// the task's memory.
func trueAfterEnd() procstats.Selection {
	return procstats.Select(
		procstats.CgroupMemoryPeak, procstats.CgroupMemorySwapPeak, procstats.CgroupPidsPeak, procstats.RusageMaxRSS,
		procstats.RusagePeakRSS, procstats.PortableCommittedPeak,
		procstats.CgroupMemoryMax, procstats.CgroupMemoryHigh, procstats.CgroupMemorySwapMax, procstats.CgroupPidsMax,
		procstats.CgroupCPUQuota, procstats.CgroupCPUQuotaEffective, procstats.CgroupCPUWeight, procstats.CgroupCPUShares,
		procstats.TreeCPULive, procstats.TreeCPUUnattributed, procstats.TreeCPUAtRows,
		procstats.CgroupMemoryFileDirty, procstats.CgroupMemoryFileWriteback,
		procstats.DiskUsage, procstats.DiskFiles, procstats.DiskWalkStart,
	)
}

// Baseline returns what a sample from before the start of a task says of it: its counters. The gauges are those of an
// empty cgroup, not the task's memory.
func Baseline(before *procstats.Sample) *procstats.Sample {
	counters := *before
	counters.Task = nil
	for _, reading := range before.Task {
		if m, known := procstats.Lookup(reading.ID()); known && m.Kind == procstats.Counter {
			counters.Task.Put(reading)
		}
	}
	return &counters
}

// MergeFinal returns the final totals with the gauges of the last sample while the task lived. rows is nil where
// nothing was sampled. A counter that was higher in rows is that: rows can be of another reader, which has seen what
// this one has not, or were read while the final totals were.
func MergeFinal(final, rows *procstats.Sample) *procstats.Sample {
	merged := final.Clone()
	keep := trueAfterEnd()
	for i := range merged.Task {
		id := merged.Task[i].ID()
		row, known := procstats.Lookup(id)
		if !known || row.Kind != procstats.Gauge || keep.Has(id) {
			continue
		}
		merged.Task[i] = procstats.AbsentReading(id, "nothing was sampled while the task ran")
	}
	active, known := final.Task.Number(procstats.CgroupMemoryActiveFile)
	inactive, both := final.Task.Number(procstats.CgroupMemoryInactiveFile)
	if known && both {
		merged.SetNumber(procstats.ExitsPageCache, active+inactive)
	}
	for _, id := range [...]procstats.ID{procstats.CgroupMemoryKernel, procstats.CgroupMemorySlabReclaimable} {
		if left, known := final.Task.Number(id); known {
			merged.SetNumber(procstats.ExitsKernelMemory, left)
		}
	}
	if rows == nil {
		return merged
	}
	for _, reading := range rows.Task {
		row, known := procstats.Lookup(reading.ID())
		final, found := merged.Task.Get(reading.ID())
		ofLife := row.Kind == procstats.Gauge && !keep.Has(reading.ID())
		uncounted := (row.Source == procstats.SourceSkb || row.Source == procstats.SourceDisk) && !final.Present()
		if !known || !found || ofLife || uncounted || fell(row.Kind, reading, final) {
			merged.Task.Put(reading)
		}
	}
	for source, at := range rows.Sources.All() {
		if merged.Sources.At(source).Zero() {
			merged.SetRead(source, at)
		}
	}
	return merged
}

// fell reports whether a counter is lower than it was.
func fell(kind procstats.Kind, was, now procstats.Reading) bool {
	before, ok := was.Number()
	after, present := now.Number()
	return kind == procstats.Counter && ok && present && after < before
}

// Values splits readings into values and reasons for absence, by the names of the table.
func Values(readings procstats.Readings) (present map[string]any, absent map[string]string) {
	present, absent = map[string]any{}, map[string]string{}
	for _, reading := range readings {
		name := reading.ID().String()
		row, _ := procstats.Lookup(reading.ID())
		text, _ := reading.Text()
		number, _ := reading.Number()
		switch {
		case !reading.Present():
			absent[name] = reading.Reason()
		case row.Kind == procstats.Label || row.Kind == procstats.Category:
			present[name] = text
		default:
			present[name] = number
		}
	}
	return present, absent
}

// SetEnd sets when and how the task ended.
func (r *Record) SetEnd(e *Evidence) {
	code, signal, seconds, span := e.ExitCode, e.Signal, e.Wall.Seconds(), e.Span.Seconds()
	r.State, r.EndedAt, r.WallSeconds, r.SpanSeconds = Exited, e.EndedAt, &seconds, &span
	if e.WaitedForAll {
		r.EndedAt, r.WallSeconds, r.MainSeconds = r.StartedAt.Add(e.Span), &span, &seconds
	}
	if e.Cause != Watched {
		r.ExitCode = &code
	}
	if signal != 0 {
		r.Signal = &signal
	}
}

// SetMeasured sets the measurements to the last readings of the task.
func (r *Record) SetMeasured(last *procstats.Sample) {
	r.Measurements, r.Absent = Values(last.Task)
	r.Guarantees = procstats.Guarantees(last, nil)
	maps.DeleteFunc(r.Guarantees, func(name string, g procstats.Guarantee) bool {
		m, _ := procstats.LookupName(name)
		return g == m.Guarantee
	})
	walk, walked := last.Task.Text(procstats.DiskWalk)
	began, _ := last.Task.Number(procstats.DiskWalkStart)
	age := last.Wall.Sub(time.UnixMilli(int64(began * 1e3)))
	switch before := procstats.AgeText(age) + " before"; {
	case !walked:
	case walk != procstats.WalkComplete:
		r.Notes = append(r.Notes, "disk_usage_bytes and disk_files are lower bounds: walk of the directory: "+walk+
			"; it began "+before)
	case age > diskAge:
		r.Notes = append(r.Notes, "disk_usage_bytes and disk_files are of a walk of the directory that began "+before)
	}
}

// diskAge is how old the size of a directory is when its age is told.
const diskAge = 2 * time.Second

// Headlines returns headline values as a record has them.
func Headlines(list []procstats.HeadlineValue) map[string]HeadlineValue {
	all := make(map[string]HeadlineValue, len(list))
	for _, h := range list {
		all[h.ID.String()] = HeadlineValue{
			Value: Known(h.Reading.Number()), Source: h.Source, Guarantee: h.Guarantee, Reason: h.Reading.Reason(),
			Notes: h.Notes,
		}
	}
	return all
}

// HeadlineList returns the headlines of a record as a reading has them, in the order of the table.
func HeadlineList(headline map[string]HeadlineValue) []procstats.HeadlineValue {
	list := make([]procstats.HeadlineValue, 0, len(headline))
	for _, m := range procstats.Table() {
		h, given := headline[m.Name]
		if !given || m.Scope != procstats.HeadlineScope {
			continue
		}
		v := procstats.HeadlineValue{ID: m.ID, Source: h.Source, Guarantee: h.Guarantee, Notes: h.Notes}
		if v.Reading = procstats.AbsentReading(m.ID, h.Reason); h.Value != nil {
			v.Reading = procstats.NumberReading(m.ID, *h.Value)
		}
		list = append(list, v)
	}
	return list
}

// Contradictions returns the sentences about headlines that other readings contradicted, one for each quantity.
func Contradictions(headline map[string]HeadlineValue) []string {
	var texts []string
	for _, m := range procstats.Table() {
		if m.ID == procstats.HeadlineCores || m.ID == procstats.HeadlineCoresAverage {
			continue // as the CPU time
		}
		for _, n := range headline[m.Name].Notes {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// Causes returns the likely causes for which headlines are lower bounds only, each once.
func Causes(headline map[string]HeadlineValue) []string {
	var causes []string
	for _, m := range procstats.Table() {
		h := headline[m.Name]
		for _, n := range h.Notes {
			if h.Guarantee == procstats.LowerBound && !slices.Contains(causes, n.Cause) {
				causes = append(causes, n.Cause)
			}
		}
	}
	return causes
}

// AllNotes returns the notes of a record, and what its headlines say of their readings.
func (r *Record) AllNotes() []string {
	notes := slices.Clone(r.Notes)
	for _, text := range Contradictions(r.Headline) {
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	return notes
}

// ProcessesOf lists who used the CPU over the whole run: the largest rows, the rest in exited, and what closes the
// sum. The commands, whose sums it closes too, say what all ended processes used; nil if that is not known.
func ProcessesOf(whole *procstats.Window, merged *procstats.Sample, sampled bool, commands *Commands) *Processes {
	if !sampled {
		return &Processes{Rows: []ProcessRow{}, Reason: "publishing off: nothing was sampled while the task ran"}
	}
	p := &Processes{Rows: []ProcessRow{}, Omitted: whole.ProcessesOmitted()}
	var inRows, inExited float64
	for _, process := range whole.Processes() {
		seconds, ok := process.LastCPU().Number()
		if !ok {
			continue
		}
		if len(p.Rows) >= finalRows {
			p.Exited.Processes++
			inExited += seconds
			continue
		}
		inRows += seconds
		p.Rows = append(p.Rows, finalRow(&process))
	}
	p.Exited.CPUSeconds = &inExited
	if total, ok := cpuTotal(merged); ok {
		p.TotalCPUSeconds, p.UnattributedCPUSeconds = &total, new(total-inRows-inExited)
	}
	if commands != nil {
		commands.CloseWith(p.TotalCPUSeconds)
		p.close(commands)
	}
	return p
}

// cpuTotal returns the task's CPU seconds as its headline has them.
func cpuTotal(s *procstats.Sample) (seconds float64, ok bool) {
	return procstats.CPUTotal(s).Reading.Number()
}

func finalRow(p *procstats.ProcessWindow) ProcessRow {
	row := ProcessRow{
		PID: p.PID, StartTicks: p.Start, PPID: p.PPID, Command: p.Command, Measurements: map[string]any{},
		States: statesOf(p),
	}
	for _, m := range procstats.Table() {
		if m.Scope != procstats.ProcessScope || !m.Kind.Allows(procstats.Last) || m.ID == procstats.ProcessCommand {
			continue // the row has the name of its own
		}
		reading, err := p.Reduce(m.ID, procstats.Last)
		if err != nil {
			continue
		}
		if number, ok := reading.Number(); ok {
			row.Measurements[m.Name] = number
		} else if text, ok := reading.Text(); ok {
			row.Measurements[m.Name] = text
		}
	}
	return row
}

// SourcesOf returns descriptions of sources as a record has them.
func SourcesOf(list []procstats.SourceDescription) []Source {
	all := make([]Source, 0, len(list))
	for _, d := range list {
		all = append(all, Source{Name: d.ID.String(), Version: d.Version, Available: d.Available, Reason: d.Reason})
	}
	return all
}

// PeakOf says when the samples saw most memory, and who held it then if that was the last sample.
func PeakOf(whole *procstats.Window, last *procstats.Sample) *Peak {
	for _, id := range []procstats.ID{procstats.CgroupMemoryCurrent, procstats.TreeMemory, procstats.PortableRSS} {
		highest, err := whole.Reduce(id, procstats.Max)
		at, ok := whole.MaxAt(id)
		if bytes, present := highest.Number(); err == nil && ok && present && last != nil {
			return &Peak{At: at.Wall, MemoryBytes: bytes, Measurement: id.String()}
		}
	}
	return nil
}

// InheritedPeak is for a task in a group that was there before it, and whose kernel peak could not be reset. A
// peak that rose during the run was reached in it and is exact; one that did not may be another task's, and the task's
// own is at most that. The headline is changed and the reason returned; it is empty where there is nothing to say.
func InheritedPeak(headline map[string]HeadlineValue, before, after *procstats.Sample) (reason string) {
	name := procstats.HeadlineMemoryPeak.String()
	h, given := headline[name]
	if !given || h.Value == nil || h.Source != procstats.CgroupMemoryPeak.String() || before == nil || after == nil {
		return ""
	}
	then, _ := before.Task.Number(procstats.CgroupMemoryPeak)
	now, _ := after.Task.Number(procstats.CgroupMemoryPeak)
	if now > then {
		return ""
	}
	h.Guarantee = procstats.UpperBound
	h.Reason = "the cgroup was there before the run, and its peak cannot be reset (Linux 6.12 can): " +
		"the task itself used at most this"
	headline[name] = h
	return h.Reason
}

// SetUnread is for totals, of some units or all, that were last read before the end, for a reason: what was exact then
// is a lower bound, and that less CPU time was read than processes had used when they ended says nothing else.
func (r *Record) SetUnread(reason string, units ...procstats.Unit) {
	unread := func(m procstats.Measurement) bool { return len(units) == 0 || slices.Contains(units, m.Unit) }
	r.Notes = append(r.Notes, reason)
	for name, h := range r.Headline {
		m, _ := procstats.LookupName(name)
		now := m.ID == procstats.HeadlineMemory || m.ID == procstats.HeadlineMemoryCharged || m.ID == procstats.HeadlineCores
		if now || !unread(m) || h.Guarantee != procstats.Exact && h.Guarantee != procstats.LowerBound {
			continue
		}
		h.Guarantee, h.Reason = procstats.LowerBound, reason
		h.Notes = slices.DeleteFunc(h.Notes, func(n procstats.Note) bool {
			return n.OtherSource == procstats.ExitsCPU.String()
		})
		r.Headline[name] = h
	}
	for name := range r.Measurements {
		m, _ := procstats.LookupName(name)
		grows := m.Kind == procstats.Counter || m.ID == procstats.CgroupMemoryPeak
		if _, weaker := r.Guarantees[name]; grows && unread(m) && m.Guarantee == procstats.Exact && !weaker {
			r.Guarantees[name] = procstats.LowerBound
		}
	}
}

// EndCounters returns, as text by the table's names, how often the task ran into its memory limits and how long it
// waited, from its start to its end: for the event of the end, which is read where the record is not. What was not
// measured is not among them.
func (r *Record) EndCounters() map[string]string {
	counters := map[string]string{}
	for _, id := range []procstats.ID{
		procstats.CgroupMemoryEventsLow, procstats.CgroupMemoryEventsHigh, procstats.CgroupMemoryEventsMax,
		procstats.CgroupMemoryEventsOOM, procstats.CgroupMemoryEventsOOMKill, procstats.CgroupMemoryEventsOOMGroupKill,
		procstats.CgroupMemoryFailcnt,
		procstats.PSICPUSome, procstats.PSICPUFull, procstats.PSIMemorySome, procstats.PSIMemoryFull,
		procstats.PSIIOSome, procstats.PSIIOFull,
	} {
		if v, ok := r.measured(id); ok {
			counters[id.String()] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return counters
}
