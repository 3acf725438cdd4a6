// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// Selection is a set of measurements. The zero Selection is empty.
type Selection struct {
	bits [8]uint64
}

// Select returns the selection of the given measurements; numbers not in the table are ignored.
func Select(ids ...ID) Selection {
	var s Selection
	for _, id := range ids {
		if _, known := Lookup(id); known {
			s.bits[id/64] |= 1 << (id % 64)
		}
	}
	return s
}

// Has reports whether a measurement is selected.
func (s Selection) Has(id ID) bool {
	return int(id/64) < len(s.bits) && s.bits[id/64]&(1<<(id%64)) != 0
}

// HasSource reports whether any measurement of a source is selected.
func (s Selection) HasSource(source SourceID) bool {
	for i := range rows {
		if rows[i].Source == source && s.Has(rows[i].ID) {
			return true
		}
	}
	return false
}
