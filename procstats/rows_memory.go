// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// memoryRows are what a task holds where no cgroup says it: the memory of its processes, and huge pages.
//
//nolint:gochecknoglobals // part of the one table, never written to
var memoryRows = [...]Measurement{
	{
		ID: TreeMemory, Name: "tree_memory_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: LowerBound,
		File:    "/proc/PID/statm resident - shared, and Pss_Anon and Pss_Shmem of /proc/PID/smaps_rollup (since Linux 5.4) on a slow clock",
		Help:    "Anonymous and shared memory that all live processes map, without the pages of files; what several of them map counts once.",
		Pitfall: "Memory that no process maps is missing: files in /dev/shm and other tmpfs, memfds, buffers of sockets and pipes, huge pages, kernel memory. If the task's cgroup accounts memory, or smaps_rollup cannot be read, it is that of the largest process.",
	},
	{
		ID: TreeSwap, Name: "tree_swap_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: LowerBound,
		File:    "/proc/PID/smaps_rollup SwapPss, summed over the processes that could be read",
		Help:    "Swapped memory of the live processes; what several of them map counts once.",
		Pitfall: "Read on the slow clock of tree_memory_bytes, and only if the task's cgroup does not account memory.",
	},
	{
		ID: HugetlbCgroupCurrent, Name: "hugetlb_cgroup_current_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceHugetlb, Guarantee: Exact,
		File:    "hugetlb.*.current (v2), hugetlb.*.usage_in_bytes (v1), all sizes",
		Help:    "Huge pages of hugetlbfs that are charged to the cgroup.",
		Pitfall: "Transparent huge pages are ordinary memory and not counted here.",
	},
	{
		ID: HugetlbMapped, Name: "hugetlb_mapped_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceHugetlb, Guarantee: LowerBound,
		File:    "/proc/PID/smaps_rollup Private_Hugetlb, summed, and the largest Shared_Hugetlb",
		Help:    "Huge pages of hugetlbfs that the live processes map.",
		Pitfall: "Files in hugetlbfs that no process maps are missing. Read on a slow clock, and only if the machine's pools of huge pages are in use and no cgroup counts them.",
	},
	{
		ID: HugetlbUncharged, Name: "hugetlb_uncharged_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceHugetlb, Guarantee: LowerBound,
		File: "hugetlb_cgroup_current_bytes, else hugetlb_mapped_bytes; 0 if cgroup2 is mounted with memory_hugetlb_accounting",
		Help: "Huge pages that the task holds and that cgroup_memory_current_bytes does not count.",
	},
	{
		ID: RusagePeakRSS, Name: "rusage_peak_rss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File:    "wait4(2) ru_maxrss of children the executor reaped, if it is above the executor's own",
		Help:    "The most resident memory that a single reaped process had at any time, mapped files included.",
		Pitfall: "Absent if no process had more than the executor: a child inherits that value from it. It is that of one process, and the task can have held more.",
	},
}
