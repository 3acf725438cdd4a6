// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// headlineRows are the values chosen from the others; headline.go has the order of preference.
//
//nolint:gochecknoglobals // part of the one table, never written to
var headlineRows = [...]Measurement{
	{
		ID: HeadlineCPU, Name: "cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_cpu_usage_seconds_total, else tree_cpu_seconds_total, rusage_cpu_seconds_total, portable_cpu_seconds_total",
		Help: "CPU time of the task.",
	},
	{
		ID: HeadlineCores, Name: "cpu_cores",
		Unit: Cores, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "the growth of the measurement behind cpu_seconds_total between two samples, over the time between its reads",
		Help: "CPUs kept busy between two samples; 1.0 is one core for the whole time.",
	},
	{
		ID: HeadlineCoresAverage, Name: "cpu_cores_average",
		Unit: Cores, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cpu_seconds_total over the time from the start of the run to the end of its last process",
		Help: "CPUs kept busy, averaged over the whole run.",
	},
	{
		ID: HeadlineMemory, Name: "memory_bytes",
		Unit: Bytes, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_memory_current_bytes - cgroup_memory_active_file_bytes - cgroup_memory_inactive_file_bytes - cgroup_memory_slab_reclaimable_bytes (v1 has no slab there: upper_bound), at least 0; else tree_rss_bytes, portable_rss_bytes",
		Help: "Memory the task needs: what the kernel cannot reclaim from it without swap.",
	},
	{
		ID: HeadlineMemoryCharged, Name: "memory_charged_bytes",
		Unit: Bytes, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_memory_current_bytes",
		Help: "Memory charged to the task, page cache included: the value that its limit applies to.",
	},
	{
		ID: HeadlineMemoryPeak, Name: "memory_peak_bytes",
		Unit: Bytes, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File:    "cgroup_memory_peak_bytes, else the larger of all samples of tree_rss_bytes or portable_rss_bytes (sampled) and of rusage_maxrss_bytes",
		Help:    "The most memory the task held at any time.",
		Pitfall: "From a cgroup it includes the page cache, as the limit does. From rusage it is that of the largest process, which may have inherited it from its launcher.",
	},
	{
		ID: HeadlineIORead, Name: "io_read_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_io_read_bytes_total, else the largest of the lower bounds tree_io_read_bytes_total, cgroup_blkio_read_bytes_total, rusage_inblock_bytes_total",
		Help: "Bytes read from storage.",
	},
	{
		ID: HeadlineIOWrite, Name: "io_write_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_io_write_bytes_total, else the largest of the lower bounds tree_io_write_bytes_total, cgroup_blkio_write_bytes_total, rusage_oublock_bytes_total",
		Help: "Bytes written to storage.",
	},
}
