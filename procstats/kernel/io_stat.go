// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "bytes"

// ParseIOStat sums "MAJOR:MINOR KEY=VALUE KEY=VALUE" lines over all devices. Lines that name a device and have no
// numbers are real: kernels up to 5.x print them for devices without I/O.
func ParseIOStat(data []byte, fields []Field) {
	for i := range fields {
		fields[i].Value, fields[i].State = 0, FieldRead
	}
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			for i := range fields {
				fields[i].State = FieldInvalid
			}
			return
		}
		data = rest
		for len(line) > 0 {
			var word []byte
			word, line, _ = bytes.Cut(line, []byte{' '})
			key, value, found := bytes.Cut(word, []byte{'='})
			for i := range fields {
				if found && string(key) == fields[i].Key {
					fields[i].add(value)
				}
			}
		}
	}
}
