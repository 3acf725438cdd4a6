// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// treeRows are what is counted over the task's processes, live, exited and reaped, and over its directory.
//
//nolint:gochecknoglobals // part of the one table, never written to
var treeRows = [...]section{{TaskScope, SourceTree, []Measurement{{
	ID: TreeCPU, Name: "tree_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: LowerBound,
	File: "process CPU clocks, /proc/PID/stat cutime and cstime, wait4(2) of reaped children",
	Help: "CPU time of the task counted from its processes: that of the children the executor reaped, and for each " +
		"live process its own and that of the children it reaped.",
	Pitfall: "Used if there is no cgroup. Time of processes whose parents ignore SIGCHLD is lost.",
}, {
	ID: TreeRSS, Name: "tree_rss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: UpperBound,
	File:    "/proc/PID/statm resident, summed",
	Help:    "The resident memory of all live processes, added up.",
	Pitfall: "Pages shared by several processes are counted once in each of them.",
}, {
	ID: TreeProcesses, Name: "tree_processes", Kind: Gauge, Guarantee: Exact,
	File: "cgroup.procs or /proc/PID/task/TID/children",
	Help: "Processes of the task that are alive; tree_zombies are not.",
}, {
	ID: TreeZombies, Name: "tree_zombies", Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/statm of processes without memory",
	Help: "Processes of the task that have ended, and whose parents have not asked how.",
}, {
	ID: TreeThreads, Name: "tree_threads", Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/stat num_threads, summed",
	Help: "Threads of all live processes.",
}, {
	ID: TreeCPULive, Name: "tree_cpu_live_seconds", Unit: Seconds, Kind: Gauge, Guarantee: Sampled,
	File:    "process CPU clocks, summed",
	Help:    "CPU time of the processes that are alive now, their own only.",
	Pitfall: "Falls when a process exits; not a counter.",
}, {
	ID: TreeCPUExited, Name: "tree_cpu_exited_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: LowerBound,
	File: "the last reading of each exited process",
	Help: "CPU time of processes that were seen and have exited, up to the last time each was seen.",
}, {
	ID: TreeCPUUnattributed, Name: "tree_cpu_unattributed_seconds", Unit: Seconds, Kind: Gauge, Guarantee: Sampled,
	File: "task total minus live minus exited",
	Help: "CPU time of the task that no process row accounts for: short-lived processes that exited before a sample " +
		"could see them. Signed: the difference between the total and the rows.",
	Pitfall: "Below 0 by 0.5 % of the total or 2 ms at most: the clocks of processes and the counter of their cgroup " +
		"are brought up to date at different moments.",
}, {
	ID: TreeProcessesExited, Name: "tree_processes_exited_total", Kind: Counter, Guarantee: LowerBound,
	File: "membership of successive samples",
	Help: "Processes that were alive in an earlier sample and have exited.",
}, {
	ID: TreeVsize, Name: "tree_vsize_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/statm size, summed",
	Help: "The address space of all live processes, added up.",
	Pitfall: "Says nothing about memory in use: what is reserved and never touched counts, and what processes share " +
		"counts in each.",
}, {
	// Which processes of the task run outside its cgroup: the cgroup's totals have nothing of them.
	ID: TreeOutside, Name: "tree_processes_outside_cgroup", Kind: Gauge, Set: OutsideSet, Guarantee: LowerBound,
	File:    "/proc/PID/cgroup, and children that cgroup.procs does not list",
	Help:    "Live processes of the task that run outside its cgroup in some hierarchy, as far as they are known.",
	Pitfall: "Processes are looked at in turn, so in a large task one that left can be found late.",
}, {
	ID: TreeLeftCPU, Name: "tree_processes_left_cpu_cgroup_total", Kind: Counter, Set: OutsideSet, Guarantee: LowerBound,
	File: "/proc/PID/cgroup: cpuacct (v1) or v2",
	Help: "Processes of the task that were seen outside the cgroup that counts its CPU time.",
}, {
	ID: TreeLeftMemory, Name: "tree_processes_left_memory_cgroup_total",
	Kind: Counter, Set: OutsideSet, Guarantee: LowerBound,
	File: "/proc/PID/cgroup: memory (v1) or v2",
	Help: "Processes of the task that were seen outside the cgroup that its memory is charged to.",
}, {
	ID: TreeLeftIO, Name: "tree_processes_left_io_cgroup_total", Kind: Counter, Set: OutsideSet, Guarantee: LowerBound,
	File: "/proc/PID/cgroup: blkio (v1) or v2",
	Help: "Processes of the task that were seen outside the cgroup that its I/O is charged to.",
}, {
	ID: TreeOutsideCPU, Name: "tree_cpu_outside_cgroup_seconds_total",
	Unit: Seconds, Kind: Counter, Set: OutsideSet, Guarantee: Sampled,
	File: "the CPU clocks of processes that two successive samples found outside the task's cgroup",
	Help: "CPU time that processes used while they ran outside the cgroup that counts the task's CPU time, as far " +
		"as it was seen.",
	Pitfall: "What a process used before it was found outside, and after the last sample of it, is missing. If it was " +
		"inside again between two samples, the cgroup has part of it too.",
}, {
	ID: TreeLeftPressure, Name: "tree_processes_left_pressure_cgroup_total",
	Kind: Counter, Set: OutsideSet, Guarantee: LowerBound,
	File: "/proc/PID/cgroup: v2",
	Help: "Processes of the task that were seen outside the cgroup that its pressure is read of.",
}, {
	ID: TreeJoined, Name: "tree_processes_joined_total", Kind: Counter, Set: OutsideSet, Guarantee: LowerBound,
	File: "cgroup.procs, and the parents of what it lists for the first time",
	Help: "Processes that another program moved into the task's cgroup, as far as they were seen. What they had " +
		"used before is not the task's.",
}, {
	// What a task holds where no cgroup says it: the memory of its processes, and huge pages.
	ID: TreeMemory, Name: "tree_memory_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "/proc/PID/statm resident - shared, and Pss_Anon and Pss_Shmem of /proc/PID/smaps_rollup (since Linux " +
		"5.4) on a slow clock",
	Help: "Anonymous and shared memory that all live processes map, without the pages of files; what several of " +
		"them map counts once.",
	Pitfall: "Memory that no process maps is missing: files in /dev/shm and other tmpfs, memfds, buffers of sockets " +
		"and pipes, huge pages, kernel memory. If the task's cgroup accounts memory, or smaps_rollup cannot be read, it " +
		"is that of the largest process.",
}, {
	ID: TreeSwap, Name: "tree_swap_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File:    "/proc/PID/smaps_rollup SwapPss, summed over the processes that could be read",
	Help:    "Swapped memory of the live processes; what several of them map counts once.",
	Pitfall: "Read on the slow clock of tree_memory_bytes, and only if the task's cgroup does not account memory.",
}, {
	// What is not in rates of CPU time.
	ID: TreeCPULate, Name: "tree_cpu_late_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Sampled,
	File: "the CPU clocks of processes that are older than the sample before the one that found them, and the " +
		"growth of tree_cpu_seconds_total",
	Help: "The part of tree_cpu_seconds_total that the sample before had missed: what processes that were " +
		"found late had used, and what is more than all CPUs " +
		"can have done since. Rates of tree_cpu_seconds_total are without it.",
	Pitfall: "What a process that is found late has used since the sample before is in it too.",
}, {
	// What a task needs and its cgroup does not count.
	ID: TreeUncharged, Name: "tree_uncharged_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "/proc/PID/statm shared of the largest process, or Pss - Pss_Anon of /proc/PID/smaps_rollup (since Linux " +
		"5.4), summed, if that is more; minus cgroup_memory_file_mapped_bytes; the most of all samples",
	Help: "Pages of files and shared memory that the processes had mapped and that others had loaded: they are charged " +
		"to those. A run that finds them not loaded is charged for them.",
	Pitfall: "Code of programs and libraries is in it. What is read without being mapped is not.",
}, {
	ID: TreeUnchargedData, Name: "tree_uncharged_data_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "as tree_uncharged_peak_bytes, minus /proc/PID/statm text",
	Help: "What of tree_uncharged_peak_bytes is not the code of the programs themselves.",
}, {
	ID: TreeUnchargedAround, Name: "tree_uncharged_around_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/maps and pagemap: what is not resident of each file that the largest process maps, from 2 MiB up " +
		"to twice what the disks read ahead, when tree_uncharged_peak_bytes has grown",
	Help: "What lies around the pages of tree_uncharged_peak_bytes in their files: a run that finds them not loaded " +
		"reads it with them.",
}, {
	ID: TreeChargedMapped, Name: "tree_charged_mapped_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "cgroup_memory_file_mapped_bytes; the most of all samples",
	Help: "Pages of files and shared memory that the processes had mapped and that were charged to the task.",
}, {
	// When processes were read, and what the task had used by then.
	ID: TreeCPUAtRows, Name: "tree_cpu_at_rows_seconds", Unit: Seconds, Kind: Gauge, Guarantee: Sampled,
	File: "the task's total that is read together with its processes",
	Help: "CPU time of the task when its processes were last read: the rows, what has exited and what is " +
		"unattributed add up to it.",
}}}, {TaskScope, SourceIO, []Measurement{{
	ID: TreeIORchar, Name: "tree_io_rchar_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/io rchar, of live and reaped processes",
	Help: "Bytes that read system calls returned, page cache and pipes included.",
	Pitfall: "A parent's counter includes its children's once it has reaped them; processes that exited between " +
		"samples and were not reaped are missing.",
}, {
	ID: TreeIOWchar, Name: "tree_io_wchar_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File:    "/proc/PID/io wchar, of live and reaped processes",
	Help:    "Bytes that were passed to write system calls, pipes and terminals included.",
	Pitfall: "A parent's counter includes its children's once it has reaped them.",
}, {
	ID: TreeIORead, Name: "tree_io_read_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/io read_bytes, of live and reaped processes",
	Help: "Bytes that the processes caused to be read from storage.",
}, {
	ID: TreeIOWrite, Name: "tree_io_write_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/io write_bytes, of live and reaped processes",
	Help: "Bytes that the processes handed to the kernel to be written to storage, counted when the page is dirtied.",
	Pitfall: "They reach storage later. A file that is deleted before writeback never does: see " +
		"tree_io_cancelled_write_bytes_total.",
}, {
	ID: TreeIOCancelledWrite, Name: "tree_io_cancelled_write_bytes_total",
	Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/io cancelled_write_bytes, of live and reaped processes",
	Help: "Bytes whose writing was cancelled because the page cache was truncated.",
}, {
	// What is worked out from several counters of I/O.
	ID: TreeIOStored, Name: "tree_io_stored_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/io write_bytes - cancelled_write_bytes, of live and reaped processes, - /proc/meminfo Dirty, " +
		"Writeback, WritebackTmp and 125 pages a CPU",
	Help: "Bytes that the processes wrote and that have reached storage at least: all that the machine has yet to " +
		"write may be theirs.",
	Pitfall: "Far too low while other tasks have much to write. What someone outside the task deletes before it is " +
		"written counts as if it had reached storage.",
}}}, {TaskScope, SourceRusage, []Measurement{{
	ID: RusageCPU, Name: "rusage_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_utime + ru_stime, of children the executor reaped",
	Help: "CPU time of reaped children and of everything they reaped themselves.",
}, {
	ID: RusageMaxRSS, Name: "rusage_maxrss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: UpperBound,
	File: "wait4(2) ru_maxrss",
	Help: "The largest resident memory of any single reaped process.",
	Pitfall: "A child inherits the value of the process that forked it, so it can be its launcher's. It is that of the " +
		"largest process, never a sum over processes.",
}, {
	ID: RusageMinflt, Name: "rusage_minflt_total", Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_minflt",
	Help: "Page faults of reaped children that needed no storage.",
}, {
	ID: RusageMajflt, Name: "rusage_majflt_total", Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_majflt",
	Help: "Page faults of reaped children that waited for storage.",
}, {
	ID: RusageNvcsw, Name: "rusage_nvcsw_total", Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_nvcsw",
	Help: "Voluntary context switches of reaped children: they waited for something.",
}, {
	ID: RusageNivcsw, Name: "rusage_nivcsw_total", Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_nivcsw",
	Help: "Involuntary context switches of reaped children.",
}, {
	ID: RusageInblock, Name: "rusage_inblock_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_inblock, units of 512 bytes",
	Help: "Bytes that reaped children caused to be read from storage.",
}, {
	ID: RusageOublock, Name: "rusage_oublock_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "wait4(2) ru_oublock, units of 512 bytes",
	Help: "Bytes that reaped children handed to the kernel to be written to storage.",
}, {
	// What the ends of processes say of those that ran outside.
	ID: RusageOutside, Name: "rusage_processes_outside_cgroup_total", Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/cgroup (v2) of a child that has ended, before the executor reaps it",
	Help: "Processes that the executor reaped and that ended outside the task's cgroup, however short they were there.",
	Pitfall: "Only the main process and orphans are reaped by the executor. A process that left groups of version " +
		"1 alone is not seen: the " +
		"kernel says of none that has ended in which it was.",
}, {
	ID: RusagePeakRSS, Name: "rusage_peak_rss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "wait4(2) ru_maxrss of children the executor reaped, if it is above the executor's own",
	Help: "The most resident memory that a single reaped process had at any time, mapped files included.",
	Pitfall: "Absent if no process had more than the executor: a child inherits that value from it. It is that of one " +
		"process, and the task can have held more.",
}}}, {TaskScope, SourceSmaps, []Measurement{{
	ID: SmapsPSS, Name: "smaps_pss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/smaps_rollup Pss, summed",
	Help: "Proportional memory of all live processes: a page shared by n processes counts one nth in each.",
	Pitfall: "Costly for large processes: read at a longer interval, within a time budget; absent if a process was " +
		"skipped.",
}, {
	ID: SmapsSwapPSS, Name: "smaps_swap_pss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/smaps_rollup SwapPss, summed",
	Help: "Swapped memory of all live processes, shared entries split among their users.",
}, {
	ID: SmapsSkipped, Name: "smaps_skipped_processes", Kind: Gauge, Guarantee: Exact,
	File: "processes omitted from the last reading",
	Help: "Processes whose smaps_rollup was not read: too large, over the time budget, or not permitted.",
}}}, {TaskScope, SourceDisk, []Measurement{{
	ID: DiskUsage, Name: "disk_usage_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Sampled,
	File:    "a walk of the task's directory, allocated blocks",
	Help:    "Disk space of the task's own directory, hard links counted once.",
	Pitfall: "Read at a longer interval of its own; see the time of the reading.",
}, {
	ID: DiskFiles, Name: "disk_files", Kind: Gauge, Guarantee: Sampled,
	File: "a walk of the task's directory",
	Help: "Files and directories in the task's own directory.",
}, {
	ID: DiskWalk, Name: "disk_walk", Kind: Label, Guarantee: Exact,
	File: "a walk of the task's directory",
	Help: "complete, or why disk_usage_bytes and disk_files are lower bounds: the walk is under way, or could not read " +
		"everything.",
}, {
	ID: DiskWalkStart, Name: "disk_walk_start_time_seconds", Unit: Time, Kind: Gauge, Guarantee: Exact,
	File: "the clock when the walk of the task's directory began",
	Help: "When the walk began that found disk_usage_bytes and disk_files, in seconds since 1970.",
}}}, {TaskScope, SourceExits, []Measurement{{
	ID: ExitsCPU, Name: "exits_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: LowerBound,
	File: "task_struct.se.sum_exec_runtime of each thread that ended in the task's v2 cgroup, by a BPF program on " +
		"sched_switch",
	Help: "CPU time of the processes that ended in the task's cgroup of version 2, over their whole lives, however " +
		"short. Only the record of an ended task has it.",
	Pitfall: "Absent if processes are known to have joined the cgroup: what they used before is in it too.",
}, {
	// What the ends of processes in the cgroup say of those that are missing.
	ID: ExitsLeft, Name: "exits_processes_left_cgroup_total", Kind: Counter, Guarantee: LowerBound,
	File: "sched_process_fork and sched_switch, by BPF programs: processes that were forked in the task's v2 " +
		"cgroup, and those that ended there",
	Help: "Processes that began in the task's cgroup of version 2 and did not end there, however short they lived. " +
		"Only the record of an ended task has it.",
	Pitfall: "A process that joined the cgroup and ended there makes up for one that left.",
}, {
	ID: ExitsIORead, Name: "exits_io_read_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File: "task_struct.ioac.read_bytes of each thread that ended in the task's v2 cgroup, by a BPF program on " +
		"sched_switch",
	Help: "Bytes that all processes of the task caused to be read from storage. Only the record of an ended task " +
		"has it.",
	Pitfall: "Absent if the end of a process was not recorded, or was outside the cgroup.",
}, {
	ID: ExitsIOWrite, Name: "exits_io_write_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File: "task_struct.ioac.write_bytes of each thread that ended in the task's v2 cgroup, by a BPF program on " +
		"sched_switch",
	Help: "Bytes that all processes of the task handed to the kernel to be written to storage. Only the record of an " +
		"ended task has it.",
	Pitfall: "Absent if the end of a process was not recorded, or was outside the cgroup.",
}, {
	ID: ExitsPageCache, Name: "exits_page_cache_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "cgroup_memory_active_file_bytes + cgroup_memory_inactive_file_bytes, when all processes have ended",
	Help: "Pages of files that are charged to the task when it has ended. Only the record of an ended task has it.",
}, {
	ID: ExitsKernelMemory, Name: "exits_kernel_memory_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "cgroup_memory_slab_reclaimable_bytes (v2), cgroup_memory_kernel_bytes (v1), when all processes have ended",
	Help: "Kernel memory that is charged to the task when it has ended: above all what it has cached of directories " +
		"and files. Only the record of an ended task has it.",
}}}, {TaskScope, SourceHugetlb, []Measurement{{
	ID: HugetlbCgroupCurrent, Name: "hugetlb_cgroup_current_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "hugetlb.*.current (v2), hugetlb.*.usage_in_bytes (v1), all sizes",
	Help:    "Huge pages of hugetlbfs that are charged to the cgroup.",
	Pitfall: "Transparent huge pages are ordinary memory and not counted here.",
}, {
	ID: HugetlbMapped, Name: "hugetlb_mapped_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "/proc/PID/smaps_rollup Private_Hugetlb, summed, and the largest Shared_Hugetlb",
	Help: "Huge pages of hugetlbfs that the live processes map.",
	Pitfall: "Files in hugetlbfs that no process maps are missing. Read on a slow clock, and only if the machine's " +
		"pools of huge pages are in use and no cgroup counts them.",
}, {
	ID: HugetlbUncharged, Name: "hugetlb_uncharged_bytes", Unit: Bytes, Kind: Gauge, Guarantee: LowerBound,
	File: "hugetlb_cgroup_current_bytes, else hugetlb_mapped_bytes; 0 if cgroup2 is mounted with " +
		"memory_hugetlb_accounting",
	Help: "Huge pages that the task holds and that cgroup_memory_current_bytes does not count.",
}}}}
