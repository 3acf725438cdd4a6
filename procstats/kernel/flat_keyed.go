// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "bytes"

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
		key, value, found := bytes.Cut(line, []byte{' '})
		if !found {
			continue
		}
		for i := range fields {
			field := &fields[(next+i)%len(fields)]
			if string(key) != field.Key {
				continue
			}
			if field.State == FieldMissing {
				field.setNumber(value)
				missing--
			}
			next += i + 1
			break
		}
	}
}

// ParseSingleValue reads a file of one number: memory.current, cpuacct.usage, pids.max. The word max is no limit.
func ParseSingleValue(data []byte, fields []Field) {
	if line, _, ok := cutLine(data); ok && len(line) > 0 {
		for i := range fields {
			fields[i].set(line)
		}
	}
}
