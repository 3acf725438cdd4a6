// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// treeRows are what is counted over the task's processes, live, exited and reaped, and over its directory.
//
//nolint:gochecknoglobals // part of the one table, never written to
var treeRows = [...]Measurement{
	{
		ID: TreeCPU, Name: "tree_cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceTree, Guarantee: LowerBound,
		File:    "process CPU clocks, /proc/PID/stat cutime and cstime, wait4(2) of reaped children",
		Help:    "CPU time of the task counted from its processes: that of the children the executor reaped, and for each live process its own and that of the children it reaped.",
		Pitfall: "Used if there is no cgroup. Time of processes whose parents ignore SIGCHLD is lost.",
	},
	{
		ID: TreeRSS, Name: "tree_rss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: UpperBound,
		File:    "/proc/PID/statm resident, summed",
		Help:    "The resident memory of all live processes, added up.",
		Pitfall: "Pages shared by several processes are counted once in each of them.",
	},
	{
		ID: TreeProcesses, Name: "tree_processes",
		Unit: None, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: Exact,
		File: "cgroup.procs or /proc/PID/task/TID/children",
		Help: "Live processes of the task.",
	},
	{
		ID: TreeThreads, Name: "tree_threads",
		Unit: None, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: Sampled,
		File: "/proc/PID/stat num_threads, summed",
		Help: "Threads of all live processes.",
	},
	{
		ID: TreeCPULive, Name: "tree_cpu_live_seconds",
		Unit: Seconds, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: Sampled,
		File:    "process CPU clocks, summed",
		Help:    "CPU time of the processes that are alive now, their own only.",
		Pitfall: "Falls when a process exits; not a counter.",
	},
	{
		ID: TreeCPUExited, Name: "tree_cpu_exited_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceTree, Guarantee: LowerBound,
		File: "the last reading of each exited process",
		Help: "CPU time of processes that were seen and have exited, up to the last time each was seen.",
	},
	{
		ID: TreeCPUUnattributed, Name: "tree_cpu_unattributed_seconds",
		Unit: Seconds, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: Sampled,
		File:    "task total minus live minus exited",
		Help:    "CPU time of the task that no process row accounts for: short-lived processes that exited before a sample could see them. Signed: the difference between the total and the rows.",
		Pitfall: "Below 0 by 0.5 % of the total or 2 ms at most: the clocks of processes and the counter of their cgroup are brought up to date at different moments.",
	},
	{
		ID: TreeProcessesExited, Name: "tree_processes_exited_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceTree, Guarantee: LowerBound,
		File: "membership of successive samples",
		Help: "Processes that were alive in an earlier sample and have exited.",
	},
	{
		ID: TreeVsize, Name: "tree_vsize_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: Sampled,
		File:    "/proc/PID/statm size, summed",
		Help:    "The address space of all live processes, added up.",
		Pitfall: "Says nothing about memory in use: what is reserved and never touched counts, and what processes share counts in each.",
	},
	{
		ID: TreeIORchar, Name: "tree_io_rchar_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceIO, Guarantee: LowerBound,
		File:    "/proc/PID/io rchar, of live and reaped processes",
		Help:    "Bytes that read system calls returned, page cache and pipes included.",
		Pitfall: "A parent's counter includes its children's once it has reaped them; processes that exited between samples and were not reaped are missing.",
	},
	{
		ID: TreeIOWchar, Name: "tree_io_wchar_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceIO, Guarantee: LowerBound,
		File:    "/proc/PID/io wchar, of live and reaped processes",
		Help:    "Bytes that were passed to write system calls, pipes and terminals included.",
		Pitfall: "A parent's counter includes its children's once it has reaped them.",
	},
	{
		ID: TreeIORead, Name: "tree_io_read_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceIO, Guarantee: LowerBound,
		File: "/proc/PID/io read_bytes, of live and reaped processes",
		Help: "Bytes that the processes caused to be read from storage.",
	},
	{
		ID: TreeIOWrite, Name: "tree_io_write_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceIO, Guarantee: LowerBound,
		File:    "/proc/PID/io write_bytes, of live and reaped processes",
		Help:    "Bytes that the processes handed to the kernel to be written to storage, counted when the page is dirtied.",
		Pitfall: "They reach storage later. A file that is deleted before writeback never does: see tree_io_cancelled_write_bytes_total.",
	},
	{
		ID: TreeIOCancelledWrite, Name: "tree_io_cancelled_write_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceIO, Guarantee: LowerBound,
		File: "/proc/PID/io cancelled_write_bytes, of live and reaped processes",
		Help: "Bytes whose writing was cancelled because the page cache was truncated.",
	},
	{
		ID: RusageCPU, Name: "rusage_cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_utime + ru_stime, of children the executor reaped",
		Help: "CPU time of reaped children and of everything they reaped themselves.",
	},
	{
		ID: RusageMaxRSS, Name: "rusage_maxrss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceRusage, Guarantee: UpperBound,
		File:    "wait4(2) ru_maxrss",
		Help:    "The largest resident memory of any single reaped process.",
		Pitfall: "A child inherits the value of the process that forked it, so it can be its launcher's. It is that of the largest process, never a sum over processes.",
	},
	{
		ID: RusageMinflt, Name: "rusage_minflt_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_minflt",
		Help: "Page faults of reaped children that needed no storage.",
	},
	{
		ID: RusageMajflt, Name: "rusage_majflt_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_majflt",
		Help: "Page faults of reaped children that waited for storage.",
	},
	{
		ID: RusageNvcsw, Name: "rusage_nvcsw_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_nvcsw",
		Help: "Voluntary context switches of reaped children: they waited for something.",
	},
	{
		ID: RusageNivcsw, Name: "rusage_nivcsw_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_nivcsw",
		Help: "Involuntary context switches of reaped children.",
	},
	{
		ID: RusageInblock, Name: "rusage_inblock_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_inblock, units of 512 bytes",
		Help: "Bytes that reaped children caused to be read from storage.",
	},
	{
		ID: RusageOublock, Name: "rusage_oublock_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "wait4(2) ru_oublock, units of 512 bytes",
		Help: "Bytes that reaped children handed to the kernel to be written to storage.",
	},
	{
		ID: SmapsPSS, Name: "smaps_pss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceSmaps, Guarantee: Sampled,
		File:    "/proc/PID/smaps_rollup Pss, summed",
		Help:    "Proportional memory of all live processes: a page shared by n processes counts one nth in each.",
		Pitfall: "Costly for large processes: read at a longer interval, within a time budget; absent if a process was skipped.",
	},
	{
		ID: SmapsSwapPSS, Name: "smaps_swap_pss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceSmaps, Guarantee: Sampled,
		File: "/proc/PID/smaps_rollup SwapPss, summed",
		Help: "Swapped memory of all live processes, shared entries split among their users.",
	},
	{
		ID: SmapsSkipped, Name: "smaps_skipped_processes",
		Unit: None, Kind: Gauge, Scope: TaskScope, Source: SourceSmaps, Guarantee: Exact,
		File: "processes omitted from the last reading",
		Help: "Processes whose smaps_rollup was not read: too large, over the time budget, or not permitted.",
	},
	{
		ID: DiskUsage, Name: "disk_usage_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourceDisk, Guarantee: Sampled,
		File:    "a walk of the task's directory, allocated blocks",
		Help:    "Disk space of the task's own directory, hard links counted once.",
		Pitfall: "Read at a longer interval of its own; see the time of the reading.",
	},
	{
		ID: DiskFiles, Name: "disk_files",
		Unit: None, Kind: Gauge, Scope: TaskScope, Source: SourceDisk, Guarantee: Sampled,
		File: "a walk of the task's directory",
		Help: "Files and directories in the task's own directory.",
	},
}

// runQueueRows are what the scheduler counts of each live process besides its CPU time.
//
//nolint:gochecknoglobals // part of the one table, never written to
var runQueueRows = [...]Measurement{
	{
		ID: ProcessRunDelay, Name: "process_run_delay_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: ProcessScope, Source: SourceTree, Set: RunQueueSet, Guarantee: LowerBound,
		File: "/proc/PID/task/TID/schedstat run_delay",
		Help: "Time for which threads of this process could run and waited for a CPU, added up over its threads.",
		Pitfall: "Includes the time for which a CPU quota throttled them. A wait counts once it has ended. Of a thread that has ended, what it " +
			"waited after it was last read is missing. Not read of processes with more than 128 threads.",
	},
	{
		ID: ProcessVoluntarySwitches, Name: "process_voluntary_switches_total",
		Unit: None, Kind: Counter, Scope: ProcessScope, Source: SourceTree, Set: RunQueueSet, Guarantee: LowerBound,
		File:    "/proc/PID/task/TID/status voluntary_ctxt_switches",
		Help:    "How often threads of this process gave up their CPU to wait for something.",
		Pitfall: "Of a thread that has ended, what came after it was last read is missing. Not read of processes with more than 128 threads.",
	},
	{
		ID: ProcessInvoluntarySwitches, Name: "process_involuntary_switches_total",
		Unit: None, Kind: Counter, Scope: ProcessScope, Source: SourceTree, Set: RunQueueSet, Guarantee: LowerBound,
		File:    "/proc/PID/task/TID/status nonvoluntary_ctxt_switches",
		Help:    "How often the CPU was taken away from threads of this process that could have used it.",
		Pitfall: "Of a thread that has ended, what came after it was last read is missing. Not read of processes with more than 128 threads.",
	},
}
