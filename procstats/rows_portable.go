// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// executorRows are what the measuring itself costs.
//
//nolint:gochecknoglobals // part of the one table, never written to
var executorRows = [...]Measurement{
	{
		ID: ExecutorCPU, Name: "executor_cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceExecutor, Guarantee: Exact,
		File: "getrusage(2) of the executor",
		Help: "CPU time of the measurement itself: the executor process of this task.",
	},
	{
		ID: ExecutorCollections, Name: "executor_collections_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceExecutor, Guarantee: Exact,
		File: "counted by the executor",
		Help: "Collections made for this task.",
	},
	{
		ID: ExecutorCollectSeconds, Name: "executor_collect_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceExecutor, Guarantee: Exact,
		File: "timed by the executor",
		Help: "Wall time spent in collections.",
	},
}

// portableRows are what systems without a reader of our own have.
//
//nolint:gochecknoglobals // part of the one table, never written to
var portableRows = [...]Measurement{
	{
		ID: PortableCPU, Name: "portable_cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePortable, Guarantee: LowerBound,
		File: "gopsutil, live processes of the tree and reaped children",
		Help: "CPU time of the task on systems other than Linux.",
	},
	{
		ID: PortableRSS, Name: "portable_rss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: TaskScope, Source: SourcePortable, Guarantee: UpperBound,
		File:    "gopsutil, summed",
		Help:    "Resident memory of all live processes on systems other than Linux.",
		Pitfall: "Shared pages count once in each process.",
	},
	{
		ID: PortableProcesses, Name: "portable_processes",
		Unit: None, Kind: Gauge, Scope: TaskScope, Source: SourcePortable, Guarantee: Sampled,
		File: "gopsutil, one process listing",
		Help: "Live processes of the task on systems other than Linux.",
	},
	{
		ID: PortableProcessCPU, Name: "portable_process_cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: ProcessScope, Source: SourcePortable, Guarantee: Exact,
		File: "gopsutil",
		Help: "CPU time of this process.",
	},
	{
		ID: PortableProcessRSS, Name: "portable_process_rss_bytes",
		Unit: Bytes, Kind: Gauge, Scope: ProcessScope, Source: SourcePortable, Guarantee: UpperBound,
		File: "gopsutil",
		Help: "Resident memory of this process.",
	},
}
