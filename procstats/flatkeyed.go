// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"bytes"
	"math"
)

// cutLine splits off the first line. ok is false at the end, and for a last line without its newline: every kernel
// file ends in one, so such a line is cut short and its number cannot be trusted.
func cutLine(data []byte) (line, rest []byte, ok bool) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return nil, nil, false
	}
	line = data[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	return line, data[end+1:], true
}

// parseKernelUint reads a decimal number as the kernel prints them: digits only, at most the largest int64. Larger
// ones are counters that ran backwards, or junk.
func parseKernelUint(b []byte) (n uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, n <= math.MaxInt64
}

// parseFlatKeyed reads "KEY VALUE" lines, the format of cpu.stat, memory.stat, memory.events, memory.oom_control and
// their like. Keys that nobody asked for, and lines of other formats, are passed over.
func parseFlatKeyed(data []byte, fields []cgroupField) {
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
			if string(key) != field.key {
				continue
			}
			if field.state == fieldMissing {
				field.setNumber(value)
				missing--
			}
			next += i + 1
			break
		}
	}
}

// parseSingleValue reads a file of one number: memory.current, cpuacct.usage, pids.max. The word max is no limit.
func parseSingleValue(data []byte, fields []cgroupField) {
	if line, _, ok := cutLine(data); ok && len(line) > 0 {
		for i := range fields {
			fields[i].set(line)
		}
	}
}
