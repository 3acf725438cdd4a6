// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "math"

// memoryCurrentV2 are the files of one number: memory.current, memory.peak and the limits.
func memoryCurrentV2() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "memory", name: "memory.current", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryCurrent}},
		},
		{
			controller: "memory", name: "memory.peak", since: "kernels older than 5.19 have no memory.peak",
			parse:  parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryPeak}},
		},
		{
			controller: "memory", name: "memory.max", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryMax}},
		},
		{
			controller: "memory", name: "memory.high", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryHigh}},
		},
	}
}

// memoryCurrentV1 are their forerunners. memory.limit_in_bytes covers the folder's own limit, as memory.max does.
func memoryCurrentV1() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "memory", name: "memory.usage_in_bytes", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryCurrent}},
		},
		{
			controller: "memory", name: "memory.max_usage_in_bytes", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryPeak}},
		},
		{
			controller: "memory", name: "memory.kmem.usage_in_bytes", since: "needs kernel memory accounting",
			parse:  parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryKernel}},
		},
		{
			controller: "memory", name: "memory.limit_in_bytes", parse: parseMemoryLimitV1,
			fields: []cgroupFieldSpec{{id: CgroupMemoryMax}},
		},
		{
			controller: "memory", name: "memory.failcnt", parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemoryFailcnt}},
		},
	}
}

// memoryUnlimitedV1 is the smallest number that stands for no limit on v1: the largest int64, rounded down to whole
// pages, which are of 4 KiB (9223372036854771712) up to 256 KiB.
const memoryUnlimitedV1 = math.MaxInt64 &^ (256<<10 - 1)

// parseMemoryLimitV1 reads memory.limit_in_bytes.
func parseMemoryLimitV1(data []byte, fields []cgroupField) {
	parseSingleValue(data, fields)
	for i := range fields {
		if fields[i].state == fieldRead && fields[i].value >= memoryUnlimitedV1 {
			fields[i].state = fieldUnlimited
		}
	}
}
