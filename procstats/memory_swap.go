// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

const reasonNoSwapAccounting = "the kernel does not account swap (CONFIG_SWAP, boot parameter swapaccount=1)"

// memorySwapV2 exist where the kernel accounts swap. On v1, memory.stat total_swap has the use; its limit counts
// memory and swap together, which is another meaning, and there is no peak.
func memorySwapV2() []cgroupFileSpec {
	return []cgroupFileSpec{
		{
			controller: "memory", name: "memory.swap.current", since: reasonNoSwapAccounting, parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemorySwapCurrent}},
		},
		{
			controller: "memory", name: "memory.swap.peak",
			since:  "kernels older than 6.5, or without swap accounting, have no memory.swap.peak",
			parse:  parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemorySwapPeak}},
		},
		{
			controller: "memory", name: "memory.swap.max", since: reasonNoSwapAccounting, parse: parseSingleValue,
			fields: []cgroupFieldSpec{{id: CgroupMemorySwapMax}},
		},
	}
}
