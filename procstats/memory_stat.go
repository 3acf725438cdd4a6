// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// memoryStatV2 covers the folder and all below it; sizes are in bytes.
func memoryStatV2() []cgroupFileSpec {
	const refaults = "kernels older than 5.9 do not split it"
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.stat", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{
			{id: CgroupMemoryAnon, key: "anon"},
			{id: CgroupMemoryFile, key: "file"},
			{id: CgroupMemoryKernel, key: "kernel", since: "kernels older than 5.18 do not report it"},
			{id: CgroupMemorySock, key: "sock"},
			{id: CgroupMemoryShmem, key: "shmem"},
			{id: CgroupMemoryFileMapped, key: "file_mapped"},
			{id: CgroupMemoryFileDirty, key: "file_dirty"},
			{id: CgroupMemoryFileWriteback, key: "file_writeback"},
			{id: CgroupMemoryInactiveFile, key: "inactive_file"},
			{id: CgroupMemoryActiveFile, key: "active_file"},
			{id: CgroupMemorySlabReclaimable, key: "slab_reclaimable"},
			{id: CgroupMemorySlabUnreclaimable, key: "slab_unreclaimable"},
			{id: CgroupMemoryRefaultAnon, key: "workingset_refault_anon", since: refaults},
			{id: CgroupMemoryRefaultFile, key: "workingset_refault_file", since: refaults},
			{id: CgroupMemoryPgfault, key: "pgfault"},
			{id: CgroupMemoryPgmajfault, key: "pgmajfault"},
		},
	}}
}

// memoryStatV1 reads the total_ keys, which cover the folder and all below it; the keys without total_ leave out
// nested cgroups. total_cache has shmem in it, as file of v2 has.
func memoryStatV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.stat", parse: parseFlatKeyed,
		fields: []cgroupFieldSpec{
			{id: CgroupMemoryFile, key: "total_cache"},
			{id: CgroupMemoryAnon, key: "total_rss"},
			{id: CgroupMemoryShmem, key: "total_shmem", since: "kernels older than 4.15 do not report it"},
			{id: CgroupMemoryFileMapped, key: "total_mapped_file"},
			{id: CgroupMemoryFileDirty, key: "total_dirty"},
			{id: CgroupMemoryFileWriteback, key: "total_writeback"},
			{id: CgroupMemorySwapCurrent, key: "total_swap", since: reasonNoSwapAccounting},
			{id: CgroupMemoryPgfault, key: "total_pgfault"},
			{id: CgroupMemoryPgmajfault, key: "total_pgmajfault"},
			{id: CgroupMemoryInactiveFile, key: "total_inactive_file"},
			{id: CgroupMemoryActiveFile, key: "total_active_file"},
		},
	}}
}
