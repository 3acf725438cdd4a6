// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Reading is one measurement in one sample: a value, or the reason for its absence.
// The zero Reading is neither and is never stored in a sample.
type Reading struct {
	id      ID
	present bool
	isText  bool
	number  float64
	text    string // the value of labels and categories, else the reason for absence
}

// reasonNotFinite stands for what is not a number: dividing by nothing must not look like a measurement.
const reasonNotFinite = "not a finite number"

// ReasonNoLimit is the reason for the absence of a limit that is not set: the measurement is available, there
// is just no number.
const ReasonNoLimit = "no limit is set"

// ReasonNoSource is the reason for the absence of what no source on this machine reads.
const ReasonNoSource = "nothing reads it here"

// NumberReading returns a reading that holds a number in the unit of its row; of NaN and the infinities, which
// are not measured numbers, an absent one.
func NumberReading(id ID, number float64) Reading {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return AbsentReading(id, reasonNotFinite)
	}
	return Reading{id: id, present: true, number: number}
}

// TextReading returns a reading that holds the text of a label or a category.
func TextReading(id ID, text string) Reading {
	return Reading{id: id, present: true, isText: true, text: text}
}

// AbsentReading returns a reading that could not be taken, with the reason in words.
func AbsentReading(id ID, reason string) Reading {
	return Reading{id: id, text: reason}
}

// ID returns the permanent number of the measurement.
func (r Reading) ID() ID { return r.id }

// Present reports whether a value was read.
func (r Reading) Present() bool { return r.present }

// Number returns the value of a gauge or counter; ok is false where none was read, and for texts.
func (r Reading) Number() (value float64, ok bool) { return r.number, r.present && !r.isText }

// Text returns the value of a label or category; ok is false where none was read, and for numbers.
func (r Reading) Text() (value string, ok bool) {
	if !r.present || !r.isText {
		return "", false
	}
	return r.text, true
}

// Reason returns why no value was read, or the empty string where one was.
func (r Reading) Reason() string {
	if r.present {
		return ""
	}
	return r.text
}

// WithCounts returns a reason that ends with counts in parentheses, which can change with every sample.
func WithCounts(reason, counts string) string { return reason + " (" + counts + ")" }

// Cause returns the reason without what WithCounts added: it is the same as long as the cause is.
func (r Reading) Cause() string {
	reason := r.Reason()
	if i := strings.LastIndex(reason, " ("); i > 0 && strings.HasSuffix(reason, ")") {
		return reason[:i]
	}
	return reason
}

// Readings are the readings of one task or one process, ordered by id, at most one per id.
type Readings []Reading

// Get returns the reading of a measurement; ok is false where the sample does not mention it.
func (rs Readings) Get(id ID) (r Reading, ok bool) {
	i, found := rs.search(id)
	if !found {
		return Reading{}, false
	}
	return rs[i], true
}

// Number returns the value of a measurement; ok is false where it is absent or not mentioned.
func (rs Readings) Number(id ID) (value float64, ok bool) {
	r, _ := rs.Get(id)
	return r.Number()
}

// Text returns the text of a measurement; ok is false where it is absent or not mentioned.
func (rs Readings) Text(id ID) (text string, ok bool) {
	r, _ := rs.Get(id)
	return r.Text()
}

// Put stores a reading, replacing one of the same id.
func (rs *Readings) Put(r Reading) {
	// Sources read in table order, so nearly every Put is an append.
	if n := len(*rs); n == 0 || (*rs)[n-1].id < r.id {
		*rs = append(*rs, r)
		return
	}
	i, found := rs.search(r.id)
	if found {
		(*rs)[i] = r
		return
	}
	*rs = slices.Insert(*rs, i, r)
}

// PutSelected puts those of other readings that are selected.
func (rs *Readings) PutSelected(others Readings, selection Selection) {
	for _, r := range others {
		if selection.Has(r.id) {
			rs.Put(r)
		}
	}
}

func (rs Readings) search(id ID) (int, bool) {
	low, high := 0, len(rs)
	for low < high {
		middle := (low + high) / 2
		if rs[middle].id < id {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(rs) && rs[low].id == id
}

// ProcessID identifies a process for as long as the machine is up: PIDs are used again, pairs of PID and
// start time are not.
type ProcessID struct {
	// PID is the process id in the PID namespace of the proc root that was read.
	PID int
	// Start is field 22 of /proc/PID/stat: clock ticks between boot and the start of the process.
	Start uint64
}

// Home is where a [ProcessID] means something: in one boot of one machine, to readers in the same PID namespace, which
// numbers processes, and in the same time namespace, which shifts their start times.
type Home struct {
	// Host is the name of the machine. It and the namespaces are empty if they are not known, as in older files.
	Host string `json:"host,omitempty"`
	// Machine is machine-id(5), if what was noted is never read by two machines: it is the same under another name.
	Machine string `json:"machine_id,omitempty"`
	// BootID is random(4)'s: process ids of another boot mean nothing.
	BootID string `json:"boot_id"`
	// PIDNamespace and TimeNamespace are names such as pid:[4026531836], see pid_namespaces(7) and time_namespaces(7).
	PIDNamespace  string `json:"pid_namespace,omitempty"`
	TimeNamespace string `json:"time_namespace,omitempty"`
}

// ProcessRow is one live process of the task in one sample.
type ProcessRow struct {
	ProcessID
	// PPID is the parent's PID at the time of reading.
	PPID int
	// Command is the kernel's comm: at most 15 bytes, any but NUL; those that are not UTF-8 are escaped, see EscapeName.
	Command  string
	Readings Readings
}

// Stamp says when a source was read.
type Stamp struct {
	// Mono is CLOCK_MONOTONIC: rates divide by its differences, so that a clock that is set, or a suspended
	// machine, falsifies none. It starts again at 0 with every boot.
	Mono time.Duration
	// Wall is the time of day of the same read, for people.
	Wall time.Time
}

// Zero reports whether the source was not read.
func (s Stamp) Zero() bool { return s.Mono == 0 && s.Wall.IsZero() }

// same reports whether two stamps are of one and the same read.
func (s Stamp) same(other Stamp) bool { return s.Mono == other.Mono && s.Wall.Equal(other.Wall) }

// Sample is one collection over all selected sources. A published sample is never changed again.
type Sample struct {
	// Stamp is the start of the collection; the sources have stamps of their own.
	Stamp
	// Checked is when CPU time, pressure, memory and packets of the task's cgroup were read again and had not moved, so
	// that nothing else was read after the times in Sources; zero if all was read.
	Checked Stamp
	// Sources holds when each source was read. Copies of a sample share it: it is not written after the collection.
	Sources ReadTimes
	// Task holds the readings of the task as a whole.
	Task Readings
	// Processes are the live processes, ordered by PID, where rows were asked for.
	Processes []ProcessRow
	// Omitted counts live processes that have no row because of the upper bound on rows.
	Omitted int
	// EarlierSet is the sample with the set of rows before this one's, if the processes are not read for every sample:
	// rates of what they are read for are over the time between two sets. It is nil on the wire, and its own is nil.
	EarlierSet *Sample
}

// ReadTimes holds when each source was read, by its id; nil if none was.
type ReadTimes []Stamp

// At returns when a source was read; zero if it was not.
func (t ReadTimes) At(source SourceID) Stamp {
	if int(source) >= len(t) {
		return Stamp{}
	}
	return t[source]
}

// All yields the sources that were read.
func (t ReadTimes) All() iter.Seq2[SourceID, Stamp] {
	return func(yield func(SourceID, Stamp) bool) {
		for source, at := range t {
			if !at.Zero() && !yield(SourceID(source), at) { //nolint:gosec // an index
				return
			}
		}
	}
}

// SetRead sets when a source was read.
func (s *Sample) SetRead(source SourceID, at Stamp) {
	if s.Sources == nil {
		s.Sources = make(ReadTimes, sourceCount)
	}
	s.Sources[source] = at
}

// SetNumber sets the task's measurement id to a value read by its source.
func (s *Sample) SetNumber(id ID, value float64) { s.Task.Put(NumberReading(id, value)) }

// SetAbsent sets the task's measurement id to absent, with the reason in words.
func (s *Sample) SetAbsent(id ID, reason string) { s.Task.Put(AbsentReading(id, reason)) }

// SetSelected sets the task's measurement id, if it is selected: to a value, or to absent if there is a reason.
func (s *Sample) SetSelected(selection Selection, id ID, value float64, reason string) {
	switch {
	case !selection.Has(id):
	case reason != "":
		s.SetAbsent(id, reason)
	default:
		s.SetNumber(id, value)
	}
}

// unmoved reports whether a measurement stands still while CPU time, pressure, memory and packets of the task's cgroup
// do: these themselves, and the CPU time of each process. Bytes can be written back, and files of a sleeping task be
// used by others, so all else may have moved.
func (m *Measurement) unmoved() bool {
	switch m.ID {
	case CgroupCPUUsage, CgroupCPUUser, CgroupCPUSystem, CgroupMemoryCurrent,
		TreeCPU, TreeCPULive, TreeCPUExited, TreeProcessesExited, ProcessCPU, ProcessChildrenCPU:
		return true
	}
	return m.Source == SourcePSI || m.Source == SourceSkb && m.Kind == Counter
}

// ReadAt returns when a measurement was read, or found not to have moved; ok is false where its source was not read.
func (s *Sample) ReadAt(id ID) (stamp Stamp, ok bool) {
	m := rowOf(id)
	if m == nil || m.Source == SourceNone {
		return s.Stamp, !s.Zero()
	}
	stamp = s.Sources.At(m.Source)
	if !s.Checked.Zero() && !stamp.Zero() && m.unmoved() {
		stamp = s.Checked
	}
	return stamp, !stamp.Zero()
}

// RowsAt is when the processes were read whose rows the sample has; ok is false if they were not. They can be older
// than the sample.
func (s *Sample) RowsAt() (stamp Stamp, ok bool) {
	stamp = s.Sources.At(SourceTree)
	return stamp, !stamp.Zero()
}

// Reset empties the sample and keeps its memory for the next collection.
func (s *Sample) Reset() {
	s.Stamp, s.Checked = Stamp{}, Stamp{}
	clear(s.Sources)
	s.Task = s.Task[:0]
	s.Processes = s.Processes[:0]
	s.Omitted, s.EarlierSet = 0, nil
}

// AddProcess appends an empty row and returns it for filling; rows that earlier collections into the same
// sample made are used again.
func (s *Sample) AddProcess(id ProcessID) *ProcessRow {
	n := len(s.Processes)
	if n < cap(s.Processes) {
		s.Processes = s.Processes[:n+1]
	} else {
		s.Processes = append(s.Processes, ProcessRow{})
	}
	row := &s.Processes[n]
	*row = ProcessRow{ProcessID: id, Readings: row.Readings[:0]}
	return row
}

// Redacted returns a copy for everybody: without the texts of process rows that say more than what the process is
// doing, as its command line does. It shares the rest with s.
func (s *Sample) Redacted() *Sample {
	c := *s
	c.Processes = slices.Clone(s.Processes)
	for i := range c.Processes {
		readings := slices.Clone(c.Processes[i].Readings)
		for k, r := range readings {
			if r.isText && r.id != ProcessState && r.id != ProcessCommand {
				readings[k] = AbsentReading(r.id, "shown to trusted callers only")
			}
		}
		c.Processes[i].Readings = readings
	}
	return &c
}

// Clone returns a copy that shares nothing with s.
func (s *Sample) Clone() *Sample {
	c := *s
	c.Sources, c.Task = slices.Clone(s.Sources), slices.Clone(s.Task)
	c.Processes = slices.Clone(s.Processes)
	for i := range c.Processes {
		c.Processes[i].Readings = slices.Clone(c.Processes[i].Readings)
	}
	return &c
}
