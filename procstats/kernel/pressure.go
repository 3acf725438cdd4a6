// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "bytes"

// ParsePressure reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" lines for their totals. The averages are left
// alone: windows of our own over the totals say more.
func ParsePressure(data []byte, fields []Field) {
	for {
		line, rest, ok := cutLine(data)
		if !ok {
			return
		}
		data = rest
		key, averages, _ := cutAt(line, ' ')
		for i := range fields {
			if string(key) != fields[i].Key || fields[i].State != FieldMissing {
				continue
			}
			fields[i].State = FieldInvalid // unless there is a total
			if _, total, found := bytes.Cut(averages, []byte("total=")); found {
				total, _, _ = cutAt(total, ' ')
				fields[i].setNumber(total)
			}
		}
	}
}
