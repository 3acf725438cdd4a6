// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"math/bits"
	"runtime"
)

// selectionWords bounds the IDs that can be selected: a table beyond it needs more words, and a test says so.
const selectionWords = 8

// Selection is a set of measurements, comparable with ==. The zero Selection is empty.
type Selection struct {
	bits [selectionWords]uint64
}

// Select returns the selection of the given measurements. Numbers not in the table are ignored; a headline
// stands for the measurements it can be taken from on this operating system.
func Select(ids ...ID) Selection {
	var s Selection
	for _, id := range ids {
		if m := rowOf(id); m != nil {
			s.add(m)
		}
	}
	return s
}

// SelectWhere returns the selection of all measurements, headlines aside, for which keep is true.
func SelectWhere(keep func(Measurement) bool) Selection {
	var s Selection
	for m := range allRows() {
		if m.Scope != HeadlineScope && keep(*m) {
			s.add(m)
		}
	}
	return s
}

// SourceSelection selects what a source reads.
func SourceSelection(source SourceID) Selection {
	return SelectWhere(func(m Measurement) bool { return m.Source == source })
}

// SetSelection selects the measurements of a set.
func SetSelection(set Set) Selection {
	return SelectWhere(func(m Measurement) bool { return m.Set == set })
}

// AllSelection selects everything this operating system could have: all but the portable source where there
// are readers of our own, and only that source and the reaped children's usage where there are none.
func AllSelection() Selection {
	return SelectWhere(func(m Measurement) bool { return belongs(m.Source, runtime.GOOS) })
}

// DefaultSelection selects what costs little: every total, and of each process its CPU time, how long it waited for a CPU, resident
// memory, state, threads and command line. Left out are what needs a walk (smaps, disk), a file more per process (process_io), and
// details that few read (address space, faults, context switches, start and elapsed time, the command that every row carries anyway).
func DefaultSelection() Selection {
	return SelectWhere(func(m Measurement) bool { return belongs(m.Source, runtime.GOOS) && cheap(m) })
}

func cheap(m Measurement) bool {
	switch m.Source {
	case SourceSmaps, SourceDisk:
		return false
	}
	if m.Scope != ProcessScope {
		return m.ID != TreeVsize
	}
	switch m.ID {
	case ProcessCPU, ProcessRSS, ProcessState, ProcessThreads, ProcessCmdline, ProcessRunDelay, PortableProcessCPU, PortableProcessRSS:
		return true
	}
	return false
}

// belongs reports whether a source is one that the operating system can have at all.
func belongs(source SourceID, goos string) bool {
	switch source {
	case SourceRusage, SourceExecutor, SourceDisk:
		return true
	case SourcePortable:
		return goos != "linux"
	case SourceExits:
		return false // a record has it without being asked
	}
	return goos == "linux"
}

func (s *Selection) add(m *Measurement) {
	if m.Scope == HeadlineScope {
		for _, id := range headlineNeeds(m.ID) {
			if belongs(rowOf(id).Source, runtime.GOOS) {
				s.set(id)
			}
		}
		return
	}
	s.set(m.ID)
}

func (s *Selection) set(id ID) { s.bits[id/64] |= 1 << (id % 64) }

// Has reports whether a measurement is selected.
func (s Selection) Has(id ID) bool {
	return int(id/64) < len(s.bits) && s.bits[id/64]&(1<<(id%64)) != 0
}

// HasSource reports whether any measurement of a source is selected.
func (s Selection) HasSource(source SourceID) bool {
	for m := range allRows() {
		if m.Source == source && s.Has(m.ID) {
			return true
		}
	}
	return false
}

// Empty reports whether nothing is selected.
func (s Selection) Empty() bool { return s == Selection{} }

// Len returns how many measurements are selected.
func (s Selection) Len() int {
	n := 0
	for _, word := range s.bits {
		n += bits.OnesCount64(word)
	}
	return n
}

// Union returns what is in s or in other.
func (s Selection) Union(other Selection) Selection {
	for i := range s.bits {
		s.bits[i] |= other.bits[i]
	}
	return s
}

// Minus returns what is in s and not in other.
func (s Selection) Minus(other Selection) Selection {
	for i := range s.bits {
		s.bits[i] &^= other.bits[i]
	}
	return s
}

// IDs returns the selected measurements, ascending.
func (s Selection) IDs() []ID {
	ids := make([]ID, 0, s.Len())
	for m := range allRows() {
		if s.Has(m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Names returns the names of the selected measurements, in the order of the table.
func (s Selection) Names() []string {
	var names []string
	for m := range allRows() {
		if s.Has(m.ID) {
			names = append(names, m.Name)
		}
	}
	return names
}
