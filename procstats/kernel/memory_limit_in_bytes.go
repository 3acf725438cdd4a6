// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "math"

// memoryUnlimitedV1 is the smallest number that stands for no limit on v1: the largest int64, rounded down to whole
// pages, which are of 4 KiB (9223372036854771712) up to 256 KiB.
const memoryUnlimitedV1 = math.MaxInt64 &^ (256<<10 - 1)

// ParseMemoryLimitV1 reads memory.limit_in_bytes.
func ParseMemoryLimitV1(data []byte, fields []Field) {
	ParseSingleValue(data, fields)
	for i := range fields {
		if fields[i].State == FieldRead && fields[i].Value >= memoryUnlimitedV1 {
			fields[i].State = FieldUnlimited
		}
	}
}
