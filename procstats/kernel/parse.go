// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"math"
)

// fieldState says what the last read of a kernel file found for one measurement.
type fieldState uint8

// What the last read of a field found.
const (
	FieldMissing   fieldState = iota // the file does not have the key
	FieldRead                        // Value holds it
	FieldUnlimited                   // the file says that no limit is set
	FieldInvalid                     // the file holds something else than a number of the right range
)

// Field is one key of a kernel file, and what the last read found for it.
type Field struct {
	Key string // the kernel's key; empty where the file has none
	FieldValue
}

// FieldValue is what a read found for a field.
type FieldValue struct {
	State fieldState
	Value float64 // in the kernel's unit, never negative
}

// FieldParser fills the fields from a file's content. It allocates nothing and leaves alone what it does not find.
type FieldParser func(data []byte, fields []Field)

// setAll gives all fields one state and no value.
func setAll(fields []Field, state fieldState) {
	for i := range fields {
		fields[i].FieldValue = FieldValue{State: state}
	}
}

// allRead reports whether every field has a value.
func allRead(fields []Field) bool {
	for i := range fields {
		if fields[i].State != FieldRead {
			return false
		}
	}
	return true
}

// set parses a value as the kernel prints it: a number, or max for no limit.
func (f *Field) set(value []byte) {
	if string(value) == "max" {
		f.State = FieldUnlimited
		return
	}
	f.setNumber(value)
}

// setNumber parses the value of a key that is never max.
func (f *Field) setNumber(value []byte) {
	n, ok := parseUint(value)
	if !ok {
		f.State = FieldInvalid
		return
	}
	f.Value, f.State = float64(n), FieldRead
}

// valueFormat is how a file of keys writes its values.
type valueFormat uint8

const (
	plainValue  valueFormat = iota // 1234
	paddedValue                    // a number behind blanks or tabs
	kibibytes                      // "   1234 kB", where the kernel means KiB; parsed into bytes
	// pressureTotal is "avg10=0.00 avg60=0.00 avg300=0.00 total=0": windows over the totals say more than the averages.
	pressureTotal
)

// setValue parses the value of a key.
func (f *Field) setValue(value []byte, format valueFormat) {
	switch format {
	case plainValue:
		f.setNumber(value)
	case paddedValue:
		f.setNumber(bytes.TrimLeft(value, " \t"))
	case kibibytes:
		digits, ok := bytes.CutSuffix(bytes.TrimLeft(value, " \t"), []byte(" kB"))
		if f.setNumber(digits); !ok || f.Value > math.MaxInt64>>10 {
			f.State = FieldInvalid
		}
		f.Value *= 1 << 10
	case pressureTotal:
		_, total, _ := bytes.Cut(value, []byte("total="))
		total, _, _ = cutAt(total, ' ')
		f.setNumber(total)
	}
}

// add adds to the sum over the devices of a file.
func (f *Field) add(value []byte) {
	n, ok := parseUint(value)
	sum := f.Value + float64(n)
	switch {
	case f.State == FieldInvalid:
	case !ok || sum > math.MaxInt64:
		f.State = FieldInvalid
	default:
		f.Value, f.State = sum, FieldRead
	}
}

// ParseFlatKeyed reads "KEY VALUE" lines, the format of cpu.stat, memory.stat, memory.events, memory.oom_control and
// their like.
func ParseFlatKeyed(data []byte, fields []Field) { parseKeyed(data, ' ', plainValue, fields) }

// ParsePressure reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" lines for their totals.
func ParsePressure(data []byte, fields []Field) { parseKeyed(data, ' ', pressureTotal, fields) }

// ParseSingleValue reads a file of one number: memory.current, cpuacct.usage, pids.max. The word max is no limit.
func ParseSingleValue(data []byte, fields []Field) {
	if line, _, ok := cutLine(data); ok && len(line) > 0 {
		for i := range fields {
			fields[i].set(line)
		}
	}
}

// parseKeyed reads lines of a key, a separator and a value. The first of several lines of one key counts. Other keys,
// and lines of other formats, are skipped.
func parseKeyed(data []byte, separator byte, format valueFormat, fields []Field) {
	// The fields are in the kernel's order, so the one after the last match is nearly always the next to come.
	next, missing := 0, len(fields)
	for missing > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			return
		}
		data = rest
		key, value, found := cutAt(line, separator)
		if !found {
			continue
		}
		at := indexKey(fields, next, key)
		if at < 0 {
			continue
		}
		if field := &fields[at]; field.State == FieldMissing {
			field.setValue(value, format)
			missing--
		}
		next = at + 1
	}
}

// indexKey returns the index of the field of a key, and looks from one on first; -1 for none.
func indexKey(fields []Field, from int, key []byte) int {
	for i := range fields {
		at := from + i
		if at >= len(fields) {
			at -= len(fields)
		}
		if fields[at].Key == string(key) {
			return at
		}
	}
	return -1
}

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

// cutAt splits at the first separator, as bytes.Cut does, which looks for whole texts and takes twice as long.
func cutAt(data []byte, separator byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(data, separator); i >= 0 {
		return data[:i], data[i+1:], true
	}
	return data, nil, false
}

// parseUint reads a decimal number as the kernel prints them: digits only, at most the largest int64. Larger ones are
// counters that ran backwards, or junk.
func parseUint(b []byte) (n uint64, ok bool) {
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
