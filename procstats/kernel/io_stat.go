// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "slices"

// IOStat reads the io.stat file of one cgroup again and again, Documentation/admin-guide/cgroup-v2.rst. The line of a device disappears
// with the device: what was counted for it stays in the sums.
type IOStat struct {
	devices *BlockDevices
	known   []deviceCounts
	gone    []float64 // of devices that are not there any more, by field; nil if none has gone
}

// deviceCounts are the counters of one device, by field.
type deviceCounts struct {
	number string
	values []float64
	listed bool // in the file that is being read
}

// NewIOStat returns a reader of the io.stat file of one cgroup.
func NewIOStat(devices *BlockDevices) *IOStat { return &IOStat{devices: devices} }

// Parse is a FieldParser. The fields are the same at each call.
func (s *IOStat) Parse(data []byte, fields []Field) {
	for i := range s.known {
		s.known[i].listed = false
	}
	invalid := false
	s.devices.each(data, fields, func(device, words []byte) {
		invalid = invalid || !s.count(device, words, fields)
	})
	if invalid || slices.ContainsFunc(fields, func(f Field) bool { return f.State == FieldInvalid }) {
		for i := range fields {
			fields[i].State = FieldInvalid
		}
		return
	}
	s.known = slices.DeleteFunc(s.known, func(d deviceCounts) bool {
		if !d.listed {
			s.lose(d.values)
		}
		return !d.listed
	})
	for i := range fields {
		fields[i].Value, fields[i].State = 0, FieldRead
		if s.gone != nil {
			fields[i].Value = s.gone[i]
		}
		for _, d := range s.known {
			fields[i].Value += d.values[i]
		}
	}
}

// count takes the line of a device. It returns false, and leaves the device as it was, if the line is invalid.
func (s *IOStat) count(device, words []byte, fields []Field) bool {
	for i := range fields {
		fields[i].Value, fields[i].State = 0, FieldRead
	}
	addIOStat(words, fields)
	at := slices.IndexFunc(s.known, func(d deviceCounts) bool { return d.number == string(device) })
	if at < 0 {
		at = len(s.known)
		s.known = append(s.known, deviceCounts{number: string(device), values: make([]float64, len(fields))})
	}
	d := &s.known[at]
	d.listed = true
	fallen := false
	for i := range fields {
		if fields[i].State == FieldInvalid {
			return false
		}
		fallen = fallen || fields[i].Value < d.values[i]
	}
	if fallen { // another device has the number
		s.lose(d.values)
	}
	for i := range fields {
		d.values[i] = fields[i].Value
	}
	return true
}

// lose keeps the counters of a device that is not there any more.
func (s *IOStat) lose(values []float64) {
	if s.gone == nil {
		s.gone = make([]float64, len(values))
	}
	for i, value := range values {
		s.gone[i] += value
	}
}
