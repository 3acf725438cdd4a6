// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"cmp"
	"slices"
)

// Measurement is one row of the table: everything there is to say about a number before it is read.
type Measurement struct {
	// ID is the permanent number.
	ID ID
	// Name is the one name of the measurement in JSON, CSV, metrics, flags and docs: the source first, the
	// kernel's words, the unit last.
	Name  string
	Unit  Unit
	Kind  Kind
	Scope Scope
	// Source is who reads it; SourceNone for headlines.
	Source SourceID
	// File is the kernel file and key, or the system call, with the kernel version it exists since.
	File string
	// Guarantee is how the value relates to the truth; empty for headlines, which take their source's.
	Guarantee Guarantee
	// Help is one sentence on what the number means.
	Help string
	// Pitfall is how the number is commonly misread; empty where it is not.
	Pitfall string
}

// Table returns every measurement there is, ordered by ID.
func Table() []Measurement { return slices.Clone(rows[:]) }

// Lookup returns the row of an ID; ok is false for numbers that this build does not know.
func Lookup(id ID) (row Measurement, ok bool) {
	i, found := slices.BinarySearchFunc(rows[:], id, func(m Measurement, id ID) int { return cmp.Compare(m.ID, id) })
	if !found {
		return Measurement{}, false
	}
	return rows[i], true
}

// LookupName returns the row with a name; ok is false where there is none.
func LookupName(name string) (row Measurement, ok bool) {
	for i := range rows {
		if rows[i].Name == name {
			return rows[i], true
		}
	}
	return Measurement{}, false
}
