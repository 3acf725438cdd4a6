// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"os"
	"path/filepath"

	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// chargesMemory reports whether a cgroup accounts memory: a nested v2 group has no controllers.
func chargesMemory(c procstats.Cgroup) bool {
	if c.V1["memory"] != "" {
		return true
	}
	_, err := os.Lstat(filepath.Join(c.V2, "memory.current"))
	return c.V2 != "" && err == nil
}

// memoryCurrentV2 are the files of one number: memory.current, memory.peak and the limits.
func memoryCurrentV2() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.current",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryCurrent}},
	}, {
		controller: "memory", name: "memory.peak", since: "kernels older than 5.19 have no memory.peak",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryPeak}},
	}, {
		controller: "memory", name: "memory.max", setting: true,
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryMax}},
	}, {
		controller: "memory", name: "memory.high", setting: true,
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryHigh}},
	}}
}

// memoryCurrentV1 are their forerunners. memory.limit_in_bytes covers the folder's own limit, as memory.max does.
func memoryCurrentV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.usage_in_bytes",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryCurrent}},
	}, {
		controller: "memory", name: "memory.max_usage_in_bytes",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryPeak}},
	}, {
		controller: "memory", name: "memory.kmem.usage_in_bytes", since: "needs kernel memory accounting",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryKernel}},
	}, {
		controller: "memory", name: "memory.limit_in_bytes", setting: true, parse: kernel.ParseMemoryLimitV1,
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryMax}},
	}, {
		controller: "memory", name: "memory.failcnt",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemoryFailcnt}},
	}}
}

// memoryStatV2 covers the folder and all below it; sizes are in bytes.
func memoryStatV2() []cgroupFileSpec {
	const refaults = "kernels older than 5.9 do not split it"
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.stat",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryAnon, key: "anon"},
			{id: procstats.CgroupMemoryFile, key: "file"},
			{id: procstats.CgroupMemoryKernel, key: "kernel", since: "kernels older than 5.18 do not report it"},
			{id: procstats.CgroupMemorySock, key: "sock"},
			{id: procstats.CgroupMemoryShmem, key: "shmem"},
			{id: procstats.CgroupMemoryFileMapped, key: "file_mapped"},
			{id: procstats.CgroupMemoryFileDirty, key: "file_dirty"},
			{id: procstats.CgroupMemoryFileWriteback, key: "file_writeback"},
			{id: procstats.CgroupMemoryInactiveFile, key: "inactive_file"},
			{id: procstats.CgroupMemoryActiveFile, key: "active_file"},
			{id: procstats.CgroupMemorySlabReclaimable, key: "slab_reclaimable"},
			{id: procstats.CgroupMemorySlabUnreclaimable, key: "slab_unreclaimable"},
			{id: procstats.CgroupMemoryRefaultAnon, key: "workingset_refault_anon", since: refaults},
			{id: procstats.CgroupMemoryRefaultFile, key: "workingset_refault_file", since: refaults},
			{id: procstats.CgroupMemoryPgfault, key: "pgfault"},
			{id: procstats.CgroupMemoryPgmajfault, key: "pgmajfault"},
		},
	}}
}

// memoryStatV1 reads the total_ keys, which cover the folder and all below it; the keys without total_ leave out
// nested cgroups. total_cache has shmem in it, as file of v2 has.
func memoryStatV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.stat",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryFile, key: "total_cache"},
			{id: procstats.CgroupMemoryAnon, key: "total_rss"},
			{id: procstats.CgroupMemoryShmem, key: "total_shmem", since: "kernels older than 4.15 do not report it"},
			{id: procstats.CgroupMemoryFileMapped, key: "total_mapped_file"},
			{id: procstats.CgroupMemoryFileDirty, key: "total_dirty"},
			{id: procstats.CgroupMemoryFileWriteback, key: "total_writeback"},
			{id: procstats.CgroupMemorySwapCurrent, key: "total_swap", since: reasonNoSwapAccounting},
			{id: procstats.CgroupMemoryPgfault, key: "total_pgfault"},
			{id: procstats.CgroupMemoryPgmajfault, key: "total_pgmajfault"},
			{id: procstats.CgroupMemoryInactiveFile, key: "total_inactive_file"},
			{id: procstats.CgroupMemoryActiveFile, key: "total_active_file"},
		},
	}}
}

// memoryEventsV2 covers the folder and all below it, unless cgroup2 is mounted with memory_localevents.
func memoryEventsV2() []cgroupFileSpec {
	const oomGroupKillSince = "kernels older than 5.17 do not report it"
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.events",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryEventsLow, key: "low"},
			{id: procstats.CgroupMemoryEventsHigh, key: "high"},
			{id: procstats.CgroupMemoryEventsMax, key: "max"},
			{id: procstats.CgroupMemoryEventsOOM, key: "oom"},
			{id: procstats.CgroupMemoryEventsOOMKill, key: "oom_kill", since: "kernels older than 4.13 do not report it"},
			{id: procstats.CgroupMemoryEventsOOMGroupKill, key: "oom_group_kill", since: oomGroupKillSince},
		},
	}}
}

// memoryOOMControlV1 counts kills in the folder itself; v1 does not carry them up from nested cgroups.
func memoryOOMControlV1() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.oom_control",
		fields: []cgroupFieldSpec{
			{id: procstats.CgroupMemoryEventsOOMKill, key: "oom_kill", since: "kernels older than 4.13 do not report it"},
		},
	}}
}

const reasonNoSwapAccounting = "the kernel does not account swap (CONFIG_SWAP, boot parameter swapaccount=1)"

// memorySwapV2 exist where the kernel accounts swap. On v1, memory.stat total_swap has the use; its limit counts
// memory and swap together, which is another meaning, and there is no peak.
func memorySwapV2() []cgroupFileSpec {
	return []cgroupFileSpec{{
		controller: "memory", name: "memory.swap.current", since: reasonNoSwapAccounting,
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemorySwapCurrent}},
	}, {
		controller: "memory", name: "memory.swap.peak",
		since:  "kernels older than 6.5, or without swap accounting, have no memory.swap.peak",
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemorySwapPeak}},
	}, {
		controller: "memory", name: "memory.swap.max", setting: true, since: reasonNoSwapAccounting,
		fields: []cgroupFieldSpec{{id: procstats.CgroupMemorySwapMax}},
	}}
}
