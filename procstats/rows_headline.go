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
		File: "cgroup_cpu_usage, tree_cpu, rusage_cpu, portable_cpu: the first that was read",
		Help: "CPU time of the task.",
	},
	{
		ID: HeadlineCores, Name: "cpu_cores",
		Unit: Cores, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "the rate of cpu_seconds_total over the window",
		Help: "CPUs kept busy over the window; 1.0 is one core all the time.",
	},
	{
		ID: HeadlineCoresAverage, Name: "cpu_cores_average",
		Unit: Cores, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cpu_seconds_total over the wall time of the run",
		Help: "CPUs kept busy, averaged over the whole run.",
	},
	{
		ID: HeadlineMemory, Name: "memory_bytes",
		Unit: Bytes, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup current - active_file - inactive_file - slab_reclaimable; else smaps_pss, tree_rss, portable_rss",
		Help: "Memory the task needs: what the kernel cannot take back from it.",
	},
	{
		ID: HeadlineMemoryCharged, Name: "memory_charged_bytes",
		Unit: Bytes, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_memory_current",
		Help: "Memory charged to the task, page cache included: what its limit is compared with.",
	},
	{
		ID: HeadlineMemoryPeak, Name: "memory_peak_bytes",
		Unit: Bytes, Kind: Gauge, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File:    "cgroup_memory_peak; else the sampled maximum; else rusage_maxrss",
		Help:    "The most memory the task ever held.",
		Pitfall: "From a cgroup it has the page cache in it, like the limit.",
	},
	{
		ID: HeadlineIORead, Name: "io_read_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_io_read; else tree_io_read, cgroup_blkio_read, rusage_inblock",
		Help: "Bytes read from storage.",
	},
	{
		ID: HeadlineIOWrite, Name: "io_write_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: HeadlineScope, Source: SourceNone, Guarantee: "",
		File: "cgroup_io_write; else tree_io_write, cgroup_blkio_write, rusage_oublock",
		Help: "Bytes written to storage.",
	},
}
