// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

// Package record is what remains of a task: the final record as it stands in info.json, and the diagnosis of
// the task's end as a pure function of the evidence.
package record

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tachograph/tacho/procstats"
)

// SchemaVersion is the version of info.json, usage.jsonl and samples.csv. Under one major version fields are only
// added, which raises the minor one; a correction of a text or of the schema raises the last.
const SchemaVersion = "1.6.0"

// State is where a run is in its life.
type State string

const (
	// Running runs have a live executor, or were cut off with it: see Lost.
	Running State = "running"
	// Exited runs have ended and the record is whole.
	Exited State = "exited"
	// Lost runs ended without a process that completed the record.
	Lost State = "lost"
)

// Record is everything known of one task, while it runs and after. JSON has the fields of its parts in their places.
type Record struct {
	Version
	State State `json:"state"`
	// ID is the task's name in cgroups and folders.
	ID      string   `json:"id"`
	Command []string `json:"command"`
	Origin
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// WallSeconds is the time from the start to EndedAt: of the main process, or of the last one if all were waited for.
	WallSeconds *float64 `json:"wall_seconds"`
	// SpanSeconds is the time from the start to the end of the last process: counters grew in it, and averages and
	// shares are of it. Older records and those of lost runs have none; see Span.
	SpanSeconds *float64 `json:"span_seconds,omitempty"`
	ExitCode    *int     `json:"exit_code"`
	// Signal is the number of the signal that ended the main process; null where none did.
	Signal    *int      `json:"signal"`
	Diagnosis Diagnosis `json:"diagnosis"`
	// Headline maps a headline's name to its value, where it was taken from and what it guarantees.
	Headline map[string]HeadlineValue `json:"headline"`
	// Measurements maps a table name to its final value; Absent says why the others have none.
	Measurements map[string]any    `json:"measurements"`
	Absent       map[string]string `json:"absent"`
	Processes    *Processes        `json:"processes,omitempty"`
	// Commands is who used it, all processes that ended; absent in records of older builds and where nothing was
	// sampled.
	Commands *Commands `json:"commands,omitempty"`
	Surroundings
	Sampling
	About
}

// Version says what wrote a record.
type Version struct {
	SchemaVersion string `json:"schema_version"`
	TachoVersion  string `json:"tacho_version"`
}

// ours reports whether this version knows the fields.
func (v Version) ours() bool {
	major := SchemaVersion[:strings.Index(SchemaVersion, ".")+1]
	return strings.HasPrefix(v.SchemaVersion, major)
}

// Origin says how a task was started, and by what process.
type Origin struct {
	Dir     string `json:"dir,omitempty"`
	User    string `json:"user,omitempty"`
	Message string `json:"message,omitempty"`
	// PID is the main process's; StartTicks tells it from later processes with the same number.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
	BootID     string `json:"boot_id,omitempty"`
	// Executor is who measured; with Socket it can be reached again while the run lives.
	Executor *Process `json:"executor,omitempty"`
	Socket   string   `json:"socket,omitempty"`
}

// Surroundings are what a task ran in, and what could be measured there.
type Surroundings struct {
	// Devices are the block devices that the task used, by name; absent if its cgroup does not count I/O by device,
	// and in records of older builds.
	Devices []Device `json:"devices,omitempty"`
	// Peak is when memory was highest among the samples, and who held it.
	Peak   *Peak   `json:"peak,omitempty"`
	Limits []Limit `json:"limits,omitempty"`
	Cgroup *Cgroup `json:"cgroup,omitempty"`
	// Earlier is of a run that was watched, and not started.
	Earlier *Earlier `json:"earlier,omitempty"`
	Sources []Source `json:"sources"`
	// Selection lists the selected measurements by name.
	Selection []string `json:"selection"`
}

// Sampling says how often a task was read, and until when.
type Sampling struct {
	Interval float64 `json:"interval_seconds"`
	// FirstInterval is the time between samples in the first minute, if it is not Interval.
	FirstInterval float64 `json:"first_interval_seconds,omitzero"`
	// Samples counts the collections; absent, and 0, where that is not known, as while the run goes on.
	Samples int64 `json:"samples,omitzero"`
	// LargestGap is the longest time without a sample, from the start to the end of the run; absent where nothing was
	// sampled, and in records of older builds.
	LargestGap float64 `json:"largest_gap_seconds,omitzero"`
	// AsOf is until when Samples, Headline, Measurements and Absent go where the record was not written to its end:
	// they are from the reports. Zero in a whole record, and where there are no reports.
	AsOf time.Time `json:"as_of,omitzero"`
	// Guarantees has those measurements that say less in this run than in the table: sizes of a directory that was not
	// walked to its end are lower bounds.
	Guarantees map[string]procstats.Guarantee `json:"guarantees,omitempty"`
}

// About is the rest: the machine, and what people are told.
type About struct {
	// MainSeconds is the time from the start to the end of the main process where that is not WallSeconds.
	MainSeconds *float64          `json:"main_seconds,omitempty"`
	Host        Host              `json:"host"`
	Labels      map[string]string `json:"labels"`
	// Notes are sentences for the user: what is lost here and why.
	Notes []string `json:"notes,omitempty"`
	// Cause is on whose account the task ended: task, operator or host; absent in records of runs.
	Cause string `json:"cause,omitempty"`
	// Incomplete says why something of the run is missing in its files, such as a full disk; empty where nothing is.
	Incomplete string `json:"incomplete,omitempty"`
	// Where is set by readers of a run that they cannot see: running on HOST, or in another namespace.
	Where string `json:"where,omitempty"`
}

// Span returns the seconds in which the run's counters grew: to the end of its last process where that is known, else
// of the main one, and to AsOf where they are from there; ok is false where none is, and for a run that took no time.
func (r *Record) Span() (seconds float64, ok bool) {
	switch {
	case r.SpanSeconds != nil:
		seconds = *r.SpanSeconds
	case !r.AsOf.IsZero():
		seconds = r.AsOf.Sub(r.StartedAt).Seconds()
	case r.WallSeconds != nil:
		seconds = *r.WallSeconds
	}
	return max(seconds, 0), seconds > 0
}

// LongGap reports whether so many seconds without a sample are much more than the interval.
func (r *Record) LongGap(seconds float64) bool {
	const much, least = 4, 1.0
	return seconds >= max(least, much*r.Interval)
}

// GapText says how long a run was not sampled at most, if that is long; empty otherwise.
func (r *Record) GapText() string {
	if !r.LongGap(r.LargestGap) {
		return ""
	}
	return "not sampled for up to " + procstats.Seconds.Text(r.LargestGap)
}

// EscapeNames escapes what users and programs have named, which may have any bytes: see procstats.EscapeName. It is
// called for new records.
func (r *Record) EscapeNames() {
	r.Command = procstats.EscapeNames(r.Command)
	for _, text := range []*string{&r.Dir, &r.User, &r.Message, &r.Host.Name} {
		*text = procstats.EscapeName(*text)
	}
	r.Labels = escapeMap(r.Labels)
	if r.Cgroup != nil {
		r.Cgroup.V1, r.Cgroup.V2 = escapeMap(r.Cgroup.V1), procstats.EscapeName(r.Cgroup.V2)
	}
}

func escapeMap(names map[string]string) map[string]string {
	if names == nil {
		return nil
	}
	all := make(map[string]string, len(names))
	for key, name := range names {
		all[procstats.EscapeName(key)] = procstats.EscapeName(name)
	}
	return all
}

// Earlier is what a cgroup had used before it was watched, as far as the kernel knows.
type Earlier struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	// MemoryPeakBytes is null where the kernel keeps no peak.
	MemoryPeakBytes *float64 `json:"memory_peak_bytes"`
}

// Process names a process for as long as the machine is up.
type Process struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
	// PIDNamespace is where the PID means this process, see pid_namespaces(7); empty if it is not known.
	PIDNamespace string `json:"pid_namespace,omitempty"`
	// TimeNamespace is where StartTicks does, see time_namespaces(7); empty if it is not known.
	TimeNamespace string `json:"time_namespace,omitempty"`
}

// SetExecutor notes who measures.
func (r *Record) SetExecutor(home procstats.Home, id procstats.ProcessID) {
	r.BootID = home.BootID
	r.Executor = &Process{
		PID: id.PID, StartTicks: id.Start, PIDNamespace: home.PIDNamespace, TimeNamespace: home.TimeNamespace,
	}
}

// Measurer returns the process with which the run ends, and where it means something: the executor, or the main process
// if that was measured without one.
func (r *Record) Measurer() (procstats.Home, procstats.ProcessID) {
	home := procstats.Home{Host: r.Host.Name, BootID: r.BootID}
	if e := r.Executor; e != nil {
		home.PIDNamespace, home.TimeNamespace = e.PIDNamespace, e.TimeNamespace
		return home, procstats.ProcessID{PID: e.PID, Start: e.StartTicks}
	}
	return home, procstats.ProcessID{PID: r.PID, Start: r.StartTicks}
}

// StateText returns the state for people.
func (r *Record) StateText() string { return cmp.Or(r.Where, string(r.State)) }

// HeadlineValue is one chosen number with where it comes from.
type HeadlineValue struct {
	// Value is null where nothing could be chosen; Reason says why.
	Value *float64 `json:"value"`
	// Source is the measurement the value was taken from.
	Source    string              `json:"source,omitempty"`
	Guarantee procstats.Guarantee `json:"guarantee,omitempty"`
	Reason    string              `json:"reason,omitempty"`
	// Notes say which other readings contradicted the value, and were taken into account.
	Notes []procstats.Note `json:"notes,omitempty"`
}

// Known returns the value, or nil and the reason if there is none, or none that says anything, see
// [procstats.Guarantee.Vacuous].
func (h *HeadlineValue) Known() (value *float64, reason string) {
	switch {
	case h.Value == nil:
		return nil, h.Reason
	case h.Guarantee.Vacuous(*h.Value):
		return nil, procstats.ReasonVacuous
	}
	return h.Value, ""
}

// NotRecorded is the reason that a record gives if it says nothing of a number.
const NotRecorded = "not recorded"

// WallName is the name of the wall time of a run, which is not in the table of measurements.
const WallName = "wall_seconds"

// measured returns a measurement; ok is false if it is not a number.
func (r *Record) measured(id procstats.ID) (value float64, ok bool) {
	value, ok = r.Measurements[id.String()].(float64)
	return value, ok
}

// amount is a measurement, 0 if there is none.
func (r *Record) amount(id procstats.ID) float64 {
	value, _ := r.measured(id)
	return value
}

// Number returns a headline, a measurement or the wall time by its name. Without a value, Reason says why.
func (r *Record) Number(name string) HeadlineValue {
	h, known := r.Headline[name]
	switch {
	case name == WallName:
		h = HeadlineValue{Value: r.WallSeconds, Guarantee: procstats.Exact, Reason: "the run has no end"}
	case !known:
		m, _ := procstats.LookupName(name)
		h = HeadlineValue{Guarantee: cmp.Or(r.Guarantees[name], m.Guarantee), Reason: r.Absent[name]}
		if value, ok := r.Measurements[name].(float64); ok {
			h.Value = &value
		}
	}
	h.Reason = cmp.Or(h.Reason, NotRecorded)
	return h
}

// Processes are those of a record.
type Processes = ProcessTable[any]

// ProcessTable is the task's CPU time by process: rows, exited and unattributed add up to the total.
type ProcessTable[M any] struct {
	// Rows are the processes of the last sample and, after the end, the largest that were seen.
	Rows []TableRow[M] `json:"rows"`
	// Exited sums what was read of processes that are gone and have no row.
	Exited ProcessSum `json:"exited"`
	// UnattributedCPUSeconds closes the sum: short-lived processes that no sample saw, or without a row. Signed.
	UnattributedCPUSeconds *float64 `json:"unattributed_cpu_seconds"`
	TotalCPUSeconds        *float64 `json:"total_cpu_seconds"`
	// Omitted counts live processes without a row.
	Omitted int `json:"omitted,omitempty"`
	// Reason says why there are no rows, where there are none.
	Reason string `json:"reason,omitempty"`
}

// ProcessRow is one process of a record.
type ProcessRow = TableRow[any]

// TableRow is one process over a run or a window.
type TableRow[M any] struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
	PPID       int    `json:"ppid"`
	Command    string `json:"command"`
	// Measurements are the last readings, by table name, or what is left of those of a window.
	Measurements map[string]M `json:"measurements"`
	// States counts the samples in which the process was seen in each state of process_state.
	States map[string]int64 `json:"states,omitempty"`
}

// ProcessSum is a row for several processes.
type ProcessSum struct {
	Processes  int64    `json:"processes"`
	CPUSeconds *float64 `json:"cpu_seconds"`
}

// Peak is the sample with the highest memory use.
type Peak struct {
	At          time.Time    `json:"at"`
	MemoryBytes float64      `json:"memory_bytes"`
	Measurement string       `json:"measurement"`
	Largest     []ProcessRow `json:"largest,omitempty"`
	Reason      string       `json:"reason,omitempty"`
}

// Limit is one limit as asked for and as the kernel holds it.
type Limit struct {
	// Name is the row of the table that reads it back; the kernel's file, with device and key, where there is none.
	Name string `json:"name"`
	// Requested is null if not requested and an ancestor has a limit.
	Requested *float64 `json:"requested"`
	// Effective is the lowest of the task's own limit and those of its visible ancestors; null for none.
	Effective *float64 `json:"effective"`
	// RequestedText and EffectiveText are the lists of a cpuset, of which the numbers are the number of CPUs.
	RequestedText string `json:"requested_text,omitempty"`
	EffectiveText string `json:"effective_text,omitempty"`
	// Where is the folder whose limit that is; empty where it is out of sight.
	Where string `json:"where,omitempty"`
}

// Texts returns what is requested and effective, in the unit of the limit or as the list of a cpuset, or
// procstats.NoValue.
func (l *Limit) Texts() (requested, effective string) {
	unit := procstats.UnitOf(l.Name)
	// Limits that are not in the table have the names of the kernel.
	isBytes := strings.HasPrefix(l.Name, "memory.") && l.Name != "memory.oom.group" ||
		strings.Contains(l.Name, "_bps_") || strings.HasSuffix(l.Name, " rbps") || strings.HasSuffix(l.Name, " wbps")
	if unit == procstats.None && isBytes {
		unit = procstats.Bytes
	}
	text := func(value *float64, list string) string {
		switch {
		case list != "":
			return list
		case value == nil:
			return procstats.NoValue
		}
		return unit.Text(*value)
	}
	return text(l.Requested, l.RequestedText), text(l.Effective, l.EffectiveText)
}

// Cgroup says where the task ran.
type Cgroup struct {
	Layout    string            `json:"layout"`
	Placement string            `json:"placement"`
	V2        string            `json:"v2,omitempty"`
	V1        map[string]string `json:"v1,omitempty"`
}

// Source is one source of measurements on this host.
type Source struct {
	Name      string `json:"name"`
	Version   string `json:"version,omitempty"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"`
}

// Host says what machine it was.
type Host struct {
	Name        string `json:"name"`
	OS          string `json:"os"`
	Kernel      string `json:"kernel,omitempty"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	// ReadAheadBytes is the most that a block device reads ahead; 0 if that is not known.
	ReadAheadBytes int64 `json:"read_ahead_bytes,omitempty"`
}

// Device is what a task has read from and written to one block device, by the end of its last process: what it had
// only handed to the kernel by then is not in it.
type Device struct {
	// Number is MAJOR:MINOR.
	Number string `json:"number"`
	// Name is the kernel's, such as sda; absent if the device was gone.
	Name string `json:"name,omitempty"`
	// Layer is true for a device that passes its I/O on to others (device mapper, md, loop). They count it again: a
	// sum over devices leaves out layers.
	Layer        bool  `json:"layer"`
	ReadBytes    int64 `json:"read_bytes"`
	WrittenBytes int64 `json:"written_bytes"`
	// Reads and Writes count operations.
	Reads  int64 `json:"reads"`
	Writes int64 `json:"writes"`
}

// redacted stands for an error, which names files.
const redacted = "it could not be read"

// Redacted returns a copy with the fields that untrusted callers may see: no command line, no path, no label. New
// fields are left out until they stand here. Its sentences are made from what is left.
func (r *Record) Redacted() *Record {
	c := &Record{
		Version: r.Version, State: r.State, ID: r.ID,
		Origin:    Origin{PID: r.PID, StartTicks: r.StartTicks, BootID: r.BootID},
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, WallSeconds: r.WallSeconds, SpanSeconds: r.SpanSeconds,
		ExitCode: r.ExitCode, Signal: r.Signal, Diagnosis: r.Diagnosis.redacted(),
		Headline: r.Headline, Measurements: r.Measurements, Absent: r.Absent,
		Processes: altered(r.Processes, func(p *Processes) { p.Rows = redactedRows(p.Rows) }),
		Commands:  r.Commands,
		Surroundings: Surroundings{
			Peak:   altered(r.Peak, func(p *Peak) { p.Largest = redactedRows(p.Largest) }),
			Limits: alteredAll(r.Limits, func(l *Limit) { l.Where = "" }), Sources: r.Sources, Selection: r.Selection,
		},
		Sampling: Sampling{
			Interval: r.Interval, FirstInterval: r.FirstInterval, Samples: r.Samples, LargestGap: r.LargestGap,
		},
		About: About{MainSeconds: r.MainSeconds},
	}
	end := c.End()
	c.Diagnosis.Outcome, c.Diagnosis.Summary, c.Diagnosis.Operator = end.Outcome, end.Summary, end.Operator()
	return c
}

// altered returns a changed copy; nil of nil.
func altered[T any](value *T, change func(*T)) *T {
	if value == nil {
		return nil
	}
	c := *value
	change(&c)
	return &c
}

func alteredAll[T any](list []T, change func(*T)) []T {
	c := slices.Clone(list)
	for i := range c {
		change(&c[i])
	}
	return c
}

// redactedRows leaves out the texts of rows: of measurements that are not numbers only command lines are known.
func redactedRows(rows []ProcessRow) []ProcessRow {
	return alteredAll(rows, func(row *ProcessRow) {
		row.Measurements = maps.Clone(row.Measurements)
		maps.DeleteFunc(row.Measurements, func(_ string, value any) bool {
			_, number := value.(float64)
			return !number
		})
	})
}

// redacted returns a diagnosis without sentences.
func (d Diagnosis) redacted() Diagnosis {
	c := Diagnosis{
		Verdict: d.Verdict, AfterMain: d.AfterMain, ForwardedSignal: d.ForwardedSignal, OOM: d.OOM, OOMKilled: d.OOMKilled,
		LastReading: d.LastReading, Forks: d.Forks, Stall: d.Stall, Thrashing: d.Thrashing, Retryable: d.Retryable,
	}
	if d.Verdict == Stopped {
		c.Reason = d.Reason // in words of our own; those of others name files
	}
	if c.OOM.Reason != "" {
		c.OOM.Reason = redacted
	}
	c.OOM.Notices = alteredAll(d.OOM.Notices, func(k *Kill) {
		k.Where = ""
		if k.Reason != "" {
			k.Reason = redacted
		}
	})
	return c
}
