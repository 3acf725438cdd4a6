// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "math"

// fieldState says what the last read of a kernel file found for one measurement.
type fieldState uint8

// What the last read of a field found.
const (
	FieldMissing   fieldState = iota // the file does not have the key
	FieldRead                        // value holds it
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

// set parses the value of the field's key as the kernel printed it: a number, or max for no limit.
func (f *Field) set(value []byte) {
	if string(value) == "max" {
		f.State = FieldUnlimited
		return
	}
	f.setNumber(value)
}

// setNumber parses the value of a key that is never max.
func (f *Field) setNumber(value []byte) {
	n, ok := parseKernelUint(value)
	if !ok {
		f.State = FieldInvalid
		return
	}
	f.Value, f.State = float64(n), FieldRead
}

// add adds to the sum over the devices of a file.
func (f *Field) add(value []byte) {
	n, ok := parseKernelUint(value)
	sum := f.Value + float64(n)
	switch {
	case f.State == FieldInvalid:
	case !ok || sum > math.MaxInt64:
		f.State = FieldInvalid
	case f.State == FieldMissing:
		f.Value, f.State = float64(n), FieldRead
	default:
		f.Value = sum
	}
}

// FieldParser fills the fields from a file's content. It allocates nothing and leaves alone what it does not find.
type FieldParser func(data []byte, fields []Field)
