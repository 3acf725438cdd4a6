// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// processRows are read once for each live process.
//
//nolint:gochecknoglobals // part of the one table, never written to
var processRows = [...]section{{ProcessScope, SourceTree, []Measurement{{
	ID: ProcessCPU, Name: "process_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "clock_gettime(2) on the process's CPU clock",
	Help: "CPU time of this process, all its threads, with a resolution of nanoseconds; its children's is not " +
		"included.",
}, {
	ID: ProcessChildrenCPU, Name: "process_children_cpu_seconds_total",
	Unit: Seconds, Kind: Counter, Guarantee: LowerBound,
	File: "/proc/PID/stat cutime + cstime",
	Help: "CPU time of the children this process has reaped, and of those that they had reaped, truncated to ticks " +
		"of 10 ms.",
	Pitfall: "Children of a process that ignores SIGCHLD are never counted.",
}, {
	ID: ProcessRSS, Name: "process_rss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: UpperBound,
	File: "/proc/PID/statm resident",
	Help: "Resident memory of this process.",
	Pitfall: "Shared pages count in full. The kernel counts per CPU or thread, so the value may be off by some pages. " +
		"In tasks of more than 512 processes the memory of one whose CPU clock stands still is up to 10 s old: only the " +
		"kernel can have added to it, by making huge pages of it.",
}, {
	ID: ProcessShared, Name: "process_shared_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "/proc/PID/statm shared",
	Help: "The part of the resident memory that is backed by files or shared memory.",
}, {
	ID: ProcessVsize, Name: "process_vsize_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "/proc/PID/statm size",
	Help:    "Address space of this process.",
	Pitfall: "Says nothing about memory in use.",
}, {
	ID: ProcessState, Name: "process_state", Kind: Category, Guarantee: Sampled,
	File: "/proc/PID/stat state",
	Help: "What the main thread was doing at the moment of reading: R, S, D, T, t, Z, X or I, as in proc_pid_stat(5).",
	Pitfall: "A process whose CPU clock stands still is read again after 10 s at the latest: one that was woken and has " +
		"not had a CPU since counts as asleep until then.",
}, {
	ID: ProcessThreads, Name: "process_threads", Kind: Gauge, Guarantee: Exact,
	File: "/proc/PID/stat num_threads",
	Help: "Threads of this process.",
}, {
	ID: ProcessMinflt, Name: "process_minflt_total", Kind: Counter, Guarantee: Exact,
	File: "/proc/PID/stat minflt",
	Help: "Page faults of this process that needed no storage.",
}, {
	ID: ProcessMajflt, Name: "process_majflt_total", Kind: Counter, Guarantee: Exact,
	File: "/proc/PID/stat majflt",
	Help: "Page faults of this process that waited for storage.",
}, {
	ID: ProcessStartTime, Name: "process_start_time_seconds", Unit: Seconds, Kind: Gauge, Guarantee: Exact,
	File:    "/proc/PID/stat starttime",
	Help:    "When the process started, in seconds after boot, truncated to ticks of 10 ms.",
	Pitfall: "Counted on the boot clock, which continues while the machine is suspended.",
}, {
	ID: ProcessCommand, Name: "process_command", Kind: Label, Guarantee: Exact,
	File:    "/proc/PID/stat comm",
	Help:    "The kernel's name of the process: at most 15 bytes, settable by the process itself.",
	Pitfall: "Not the command line, and not always valid text. Every process row has it, selected or not.",
}, {
	ID: ProcessElapsed, Name: "process_elapsed_seconds", Unit: Seconds, Kind: Gauge, Guarantee: Exact,
	File:    "clock_gettime(2) CLOCK_BOOTTIME minus /proc/PID/stat starttime",
	Help:    "Time since the process started, to ticks of 10 ms.",
	Pitfall: "Includes the time for which the machine was suspended, and the time before the process joined the task.",
}, {
	ID: ProcessCmdline, Name: "process_cmdline", Kind: Label, Guarantee: Sampled,
	File: "/proc/PID/cmdline",
	Help: "The command line, at most 512 bytes: arguments with spaces or special characters are quoted. Shown to " +
		"trusted callers only.",
	Pitfall: "A process can write anything over its arguments. Read when a program starts, and again, after 10 s at " +
		"the earliest, if its address space has changed.",
}, {
	// What the scheduler counts of each live process besides its CPU time.
	ID: ProcessRunDelay, Name: "process_run_delay_seconds_total",
	Unit: Seconds, Kind: Counter, Set: RunQueueSet, Guarantee: LowerBound,
	File: "/proc/PID/task/TID/schedstat run_delay",
	Help: "Time for which threads of this process could run and waited for a CPU, added up over its threads.",
	Pitfall: "Includes the time for which a CPU quota throttled them. A wait counts once it has ended. Of a " +
		"thread that has ended, what it " +
		"waited after it was last read is missing. Not read of processes with more than 128 threads.",
}, {
	ID: ProcessVoluntarySwitches, Name: "process_voluntary_switches_total",
	Kind: Counter, Set: RunQueueSet, Guarantee: LowerBound,
	File: "/proc/PID/task/TID/status voluntary_ctxt_switches",
	Help: "How often threads of this process gave up their CPU to wait for something.",
	Pitfall: "Of a thread that has ended, what came after it was last read is missing. Not read of processes with more " +
		"than 128 threads.",
}, {
	ID: ProcessInvoluntarySwitches, Name: "process_involuntary_switches_total",
	Kind: Counter, Set: RunQueueSet, Guarantee: LowerBound,
	File: "/proc/PID/task/TID/status nonvoluntary_ctxt_switches",
	Help: "How often the CPU was taken away from threads of this process that could have used it.",
	Pitfall: "Of a thread that has ended, what came after it was last read is missing. Not read of processes with more " +
		"than 128 threads.",
}}}, {ProcessScope, SourceSmaps, []Measurement{{
	ID: ProcessPSS, Name: "process_pss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Sampled,
	File: "/proc/PID/smaps_rollup Pss",
	Help: "Proportional memory of this process.",
}}}, {ProcessScope, SourceIO, []Measurement{{
	ID: ProcessIORchar, Name: "process_io_rchar_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File:    "/proc/PID/io rchar",
	Help:    "Bytes that read system calls returned to this process and to children it reaped.",
	Pitfall: "The kernel adds a child's values to its parent's when it is reaped; do not add up rows.",
}, {
	ID: ProcessIOWchar, Name: "process_io_wchar_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File:    "/proc/PID/io wchar",
	Help:    "Bytes that this process and children it reaped passed to write system calls.",
	Pitfall: "The kernel adds a child's values to its parent's when it is reaped; do not add up rows.",
}, {
	ID: ProcessIORead, Name: "process_io_read_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File:    "/proc/PID/io read_bytes",
	Help:    "Bytes that this process and children it reaped caused to be read from storage.",
	Pitfall: "The kernel adds a child's values to its parent's when it is reaped; do not add up rows.",
}, {
	ID: ProcessIOWrite, Name: "process_io_write_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File:    "/proc/PID/io write_bytes",
	Help:    "Bytes that this process and children it reaped caused to be written to storage.",
	Pitfall: "The kernel adds a child's values to its parent's when it is reaped; do not add up rows.",
}, {
	ID: ProcessIOCancelledWrite, Name: "process_io_cancelled_write_bytes_total",
	Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File:    "/proc/PID/io cancelled_write_bytes",
	Help:    "Bytes whose writing was cancelled before they reached storage.",
	Pitfall: "The kernel adds a child's values to its parent's when it is reaped; do not add up rows.",
}}}, {TaskScope, SourceExecutor, []Measurement{{
	// What the measuring itself costs.
	ID: ExecutorCPU, Name: "executor_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "getrusage(2) of the executor",
	Help: "CPU time of the measurement itself: the executor process of this task.",
}, {
	ID: ExecutorCollections, Name: "executor_collections_total", Kind: Counter, Guarantee: Exact,
	File: "counted by the executor",
	Help: "Collections made for this task.",
}, {
	ID: ExecutorCollectSeconds, Name: "executor_collect_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "timed by the executor",
	Help: "Wall time spent in collections.",
}, {
	// How often a task is sampled.
	ID: ExecutorInterval, Name: "executor_sampling_interval_seconds", Unit: Seconds, Kind: Gauge, Guarantee: Exact,
	File: "the own count of the process that samples",
	Help: "Time between two samples of the task, by its executor or in the driver's loop, stretched if sampling " +
		"would take more than its budget.",
	Pitfall: "Compare with executor_sampling_interval_requested_seconds. Absent while samples are only taken when they " +
		"are asked for.",
}, {
	ID: ExecutorIntervalRequested, Name: "executor_sampling_interval_requested_seconds",
	Unit: Seconds, Kind: Gauge, Guarantee: Exact,
	File: "the own count of the process that samples",
	Help: "Time between two samples of the task as it was requested; the shortest one of several readers.",
}}}, {TaskScope, SourcePortable, []Measurement{{
	// What systems without a reader of our own have.
	ID: PortableCPU, Name: "portable_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: LowerBound,
	File: "gopsutil, live processes of the tree and reaped children; at least the total of the Job Object on Windows",
	Help: "CPU time of the task on systems other than Linux.",
}, {
	ID: PortableRSS, Name: "portable_rss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: UpperBound,
	File:    "gopsutil, summed",
	Help:    "Resident memory of all live processes on systems other than Linux.",
	Pitfall: "Shared pages count once in each process.",
}, {
	ID: PortableProcesses, Name: "portable_processes", Kind: Gauge, Guarantee: Sampled,
	File: "gopsutil, one process listing",
	Help: "Live processes of the task on systems other than Linux.",
}, {
	ID: PortableCommittedPeak, Name: "portable_committed_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "QueryInformationJobObject, PeakJobMemoryUsed",
	Help:    "The most memory that all processes of the task together had committed at any time, on Windows.",
	Pitfall: "Committed memory is reserved in RAM or the page file, whether it was touched or not.",
}}}, {ProcessScope, SourcePortable, []Measurement{{
	ID: PortableProcessCPU, Name: "portable_process_cpu_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "gopsutil",
	Help: "CPU time of this process.",
}, {
	ID: PortableProcessRSS, Name: "portable_process_rss_bytes", Unit: Bytes, Kind: Gauge, Guarantee: UpperBound,
	File: "gopsutil",
	Help: "Resident memory of this process.",
}}}}
