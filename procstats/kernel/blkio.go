// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "bytes"

// ParseBlkio sums "MAJOR:MINOR KEY VALUE" lines over all devices and leaves sums of 0 missing: they say nothing about
// the task. The last line, "Total VALUE", has no device.
func ParseBlkio(data []byte, fields []Field) {
	for len(data) > 0 {
		line, rest, ok := cutLine(data)
		if !ok {
			for i := range fields {
				fields[i].State = FieldInvalid
			}
			return
		}
		data = rest
		_, operation, _ := bytes.Cut(line, []byte{' '})
		key, value, found := bytes.Cut(operation, []byte{' '})
		for i := range fields {
			if found && string(key) == fields[i].Key && string(value) != "0" {
				fields[i].add(value)
			}
		}
	}
}
