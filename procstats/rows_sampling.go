// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// setRows say when processes were read, and what the task had used by then.
//
//nolint:gochecknoglobals // part of the one table, never written to
var setRows = [...]Measurement{
	{
		ID: TreeCPUAtRows, Name: "tree_cpu_at_rows_seconds",
		Unit: Seconds, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Guarantee: Sampled,
		File: "the task's total that is read together with its processes",
		Help: "CPU time of the task when its processes were last read: the rows, what has exited and what is unattributed add up to it.",
	},
	{
		ID: HeadlineProcessesAge, Name: "process_rows_age_seconds",
		Unit: Seconds, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "the time of the sample minus that of tree_processes, CLOCK_MONOTONIC",
		Help: "How long before the sample the processes of the task were read, whose rows it has; absent if it is 0. The measurements of the sources tree and io are as old.",
	},
}

// samplingRows are how often a task is sampled.
//
//nolint:gochecknoglobals // part of the one table, never written to
var samplingRows = [...]Measurement{
	{
		ID: ExecutorInterval, Name: "executor_sampling_interval_seconds",
		Unit: Seconds, Kind: Gauge, Scope: TaskScope, Source: SourceExecutor, Guarantee: Exact,
		File:    "the own count of the process that samples",
		Help:    "Time between two samples of the task, by its executor or in the driver's loop, stretched if sampling would take more than its budget.",
		Pitfall: "Compare with executor_sampling_interval_requested_seconds. Absent while samples are only taken when they are asked for.",
	},
	{
		ID: ExecutorIntervalRequested, Name: "executor_sampling_interval_requested_seconds",
		Unit: Seconds, Kind: Gauge, Scope: TaskScope, Source: SourceExecutor, Guarantee: Exact,
		File: "the own count of the process that samples",
		Help: "Time between two samples of the task as it was requested; the shortest one of several readers.",
	},
}
