// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"iter"
	"strings"
)

// Measurement is one row of the table: everything there is to say about a number before it is read.
type Measurement struct {
	// ID is the permanent number.
	ID ID
	// Name is the one name of the measurement in JSON, metrics, flags and docs: the source first, the
	// kernel's words, the unit last.
	Name  string
	Unit  Unit
	Kind  Kind
	Scope Scope
	// Source is who reads it; SourceNone for headlines.
	Source SourceID
	// Set is what the measurement is about, if others of its source are measured, or absent, together with it.
	Set Set
	// File is the kernel file and key, or the system call, with the kernel version it exists since.
	File string
	// Guarantee is how the value relates to the truth; empty for headlines, which take their source's.
	Guarantee Guarantee
	// Help is one sentence on what the number means.
	Help string
	// Pitfall is how the number is commonly misread; empty where it is not.
	Pitfall string
}

// sections are the table, one array a file, ordered by ID. They are laid out at build time, so that a process
// which asks for nothing pays nothing at its start; Table and Lookup hand out copies.
//
//nolint:gochecknoglobals // the one table, never written to
var sections = [...][]Measurement{
	cgroupRows[:], psiRows[:], treeRows[:], processRows[:], executorRows[:], portableRows[:], headlineRows[:],
	outsideRows[:], laterHeadlineRows[:], ioRows[:], endRows[:], runQueueRows[:], exitRows[:], memoryRows[:], setRows[:], rateRows[:], ancestorRows[:], samplingRows[:], inheritedRows[:],
	networkRows[:],
}

// allRows walks the table in the order of IDs.
func allRows() iter.Seq[*Measurement] {
	return func(yield func(*Measurement) bool) {
		for _, section := range sections {
			for i := range section {
				if !yield(&section[i]) {
					return
				}
			}
		}
	}
}

// rowOf finds a row by its number, nil where there is none.
func rowOf(id ID) *Measurement {
	for _, section := range sections {
		if id > section[len(section)-1].ID {
			continue
		}
		low, high := 0, len(section)
		for low < high {
			middle := (low + high) / 2
			if section[middle].ID < id {
				low = middle + 1
			} else {
				high = middle
			}
		}
		if section[low].ID == id {
			return &section[low]
		}
		return nil
	}
	return nil
}

// Table returns every measurement there is, ordered by ID.
func Table() []Measurement {
	var table []Measurement
	for m := range allRows() {
		table = append(table, *m)
	}
	return table
}

// Lookup returns the row of an ID; ok is false for numbers that this build does not know.
func Lookup(id ID) (m Measurement, ok bool) {
	found := rowOf(id)
	if found == nil {
		return Measurement{}, false
	}
	return *found, true
}

// LookupName returns the row with a name; ok is false where there is none.
func LookupName(name string) (m Measurement, ok bool) {
	for m := range allRows() {
		if m.Name == name {
			return *m, true
		}
	}
	return Measurement{}, false
}

// hasPrefix reports whether prefix is a whole number of words at the start of name: cgroup_memory is one of
// cgroup_memory_peak_bytes, cgroup_mem is not.
func hasPrefix(name, prefix string) bool {
	rest, found := strings.CutPrefix(name, prefix)
	return found && prefix != "" && (rest == "" || rest[0] == '_')
}
