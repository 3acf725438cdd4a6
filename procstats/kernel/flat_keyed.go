// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

// ParseFlatKeyed reads "KEY VALUE" lines, the format of cpu.stat, memory.stat, memory.events, memory.oom_control and
// their like. Other keys, and lines of other formats, are skipped.
func ParseFlatKeyed(data []byte, fields []Field) {
	// The fields are in the kernel's order, so the one after the last match is nearly always the next to come.
	next, missing := 0, len(fields)
	for missing > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			return
		}
		data = rest
		key, value, found := cutAt(line, ' ')
		if !found {
			continue
		}
		at := indexKey(fields, next, key)
		if at < 0 {
			continue
		}
		if field := &fields[at]; field.State == FieldMissing {
			field.setNumber(value)
			missing--
		}
		next = at + 1
	}
}

// indexKey returns the index of the field of a key, and looks from one on first; -1 for none.
func indexKey(fields []Field, from int, key []byte) int {
	for i := from; i < len(fields); i++ {
		if fields[i].Key == string(key) {
			return i
		}
	}
	for i := range fields[:from] {
		if fields[i].Key == string(key) {
			return i
		}
	}
	return -1
}

// ParseSingleValue reads a file of one number: memory.current, cpuacct.usage, pids.max. The word max is no limit.
func ParseSingleValue(data []byte, fields []Field) {
	if line, _, ok := cutLine(data); ok && len(line) > 0 {
		for i := range fields {
			fields[i].set(line)
		}
	}
}
