// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// headlineRows are the values chosen from the others; headline.go has the order of preference.
//
//nolint:gochecknoglobals // part of the one table, never written to
var headlineRows = [...]section{{HeadlineScope, SourceNone, []Measurement{{
	ID: HeadlineCPU, Name: "cpu_seconds_total", Unit: Seconds, Kind: Counter,
	File: "cgroup_cpu_usage_seconds_total, else tree_cpu_seconds_total, rusage_cpu_seconds_total, " +
		"portable_cpu_seconds_total",
	Help: "CPU time of the task.",
}, {
	ID: HeadlineCores, Name: "cpu_cores", Unit: Cores, Kind: Gauge,
	File: "the growth of cgroup_cpu_usage_seconds_total, else tree_cpu_seconds_total, portable_cpu_seconds_total " +
		"between two samples, over the time between its reads",
	Help: "CPUs kept busy between two samples; 1.0 is one core for the whole time.",
	Pitfall: "In the record of a run shorter than 10 s it is a lower bound: the last read is later than the end. " +
		"Without a cgroup it is sampled: what one sample missed, as of a process that was just ending, the next one has, " +
		"and shows as growth.",
}, {
	ID: HeadlineCoresAverage, Name: "cpu_cores_average", Unit: Cores, Kind: Gauge,
	File: "cpu_seconds_total over the time from the start of the run to the end of its last process",
	Help: "CPUs kept busy, averaged over the whole run.",
	Pitfall: "Of an ended run shorter than 10 s it is a lower bound, unless the end of every process was recorded " +
		"(root): that the last one has ended is known only some time later.",
}, {
	ID: HeadlineMemory, Name: "memory_bytes", Unit: Bytes, Kind: Gauge,
	File: "cgroup_memory_current_bytes - cgroup_memory_active_file_bytes - cgroup_memory_inactive_file_bytes - " +
		"cgroup_memory_slab_reclaimable_bytes (v1 has no slab there: upper_bound), at least 0; else tree_memory_bytes, " +
		"portable_rss_bytes; and hugetlb_uncharged_bytes, beside which v1 counts as cgroup_memory_anon_bytes + " +
		"cgroup_memory_shmem_bytes unless hugetlb_cgroup_current_bytes was read",
	Help: "Memory the task needs: what the kernel cannot reclaim from it without swap, huge pages included.",
	Pitfall: "Without a cgroup it is what the processes map, and a lower_bound: files in /dev/shm, memfds that are not " +
		"mapped, and buffers of sockets and pipes are missing. What others had loaded is charged to them: see " +
		"tree_uncharged_peak_bytes, which makes it a lower_bound if that is much.",
}, {
	ID: HeadlineMemoryCharged, Name: "memory_charged_bytes", Unit: Bytes, Kind: Gauge,
	File: "cgroup_memory_current_bytes",
	Help: "Memory charged to the task, page cache included: the value that its limit applies to.",
}, {
	ID: HeadlineMemoryPeak, Name: "memory_peak_bytes", Unit: Bytes, Kind: Gauge,
	File: "cgroup_memory_peak_bytes, else the largest of all samples of cgroup_memory_current_bytes, " +
		"tree_memory_bytes or portable_rss_bytes, and of rusage_peak_rss_bytes (lower_bound); held against " +
		"hugetlb_uncharged_bytes",
	Help: "The most memory that was charged to the task, or that it held, at any time.",
	Pitfall: "From a cgroup it includes the page cache, as the limit does, but not what others had loaded: see " +
		"tree_uncharged_peak_bytes, which makes it a lower_bound if that is much. Without one the task held at least " +
		"this: a peak between two samples is known of single processes only.",
}, {
	ID: HeadlineIORead, Name: "io_read_bytes_total", Unit: Bytes, Kind: Counter,
	File: "cgroup_io_read_bytes_total, exits_io_read_bytes_total, else the largest of the lower bounds " +
		"tree_io_read_bytes_total, cgroup_blkio_read_bytes_total, rusage_inblock_bytes_total",
	Help: "Bytes read from storage.",
}, {
	ID: HeadlineIOWrite, Name: "io_write_bytes_total", Unit: Bytes, Kind: Counter,
	File: "cgroup_io_write_bytes_total (exact if it is tree_io_write_bytes_total or rusage_oublock_bytes_total less " +
		"tree_io_cancelled_write_bytes_total, and cgroup_memory_file_dirty_bytes and cgroup_memory_file_writeback_bytes " +
		"are 0, all to 1 %), else the larger of the lower bounds tree_io_stored_bytes_total, " +
		"cgroup_blkio_write_bytes_total; at the end of a task without the first, at least io_write_handed_bytes_total less " +
		"what was cancelled and what its cgroup has dirty or under writeback (exact if nothing was handed over)",
	Help: "Bytes written to storage.",
	Pitfall: "What was handed to the kernel reaches storage later, often after the task has ended: see " +
		"io_write_handed_bytes_total and io_write_pending_bytes. The kernel charges them to the cgroup that owns the " +
		"file's pages.",
}, {
	ID: HeadlineIOHanded, Name: "io_write_handed_bytes_total", Unit: Bytes, Kind: Counter,
	File: "exits_io_write_bytes_total, else the larger of the lower bounds tree_io_write_bytes_total, " +
		"rusage_oublock_bytes_total",
	Help: "Bytes the task handed to the kernel to be written to storage: pages of files and devices that it " +
		"changed, and direct writes.",
	Pitfall: "A page that is changed again before it is written counts once. What is deleted before it is written " +
		"never reaches storage: see tree_io_cancelled_write_bytes_total.",
}, {
	ID: HeadlineIOPending, Name: "io_write_pending_bytes", Unit: Bytes, Kind: Gauge,
	File: "cgroup_memory_file_dirty_bytes + cgroup_memory_file_writeback_bytes",
	Help: "Bytes not yet written to storage.",
	Pitfall: "Pages of the cgroup, whoever changed them. Sampled: the kernel adds them up per CPU, with a lag of up to " +
		"64 pages each.",
}, {
	ID: HeadlineSwap, Name: "memory_swap_bytes", Unit: Bytes, Kind: Gauge,
	File: "cgroup_memory_swap_current_bytes, else tree_swap_bytes",
	Help: "Memory of the task that is swapped out; absent if it is 0.",
}, {
	ID: HeadlineHugetlb, Name: "memory_hugetlb_bytes", Unit: Bytes, Kind: Gauge,
	File: "hugetlb_cgroup_current_bytes, else hugetlb_mapped_bytes",
	Help: "Huge pages of hugetlbfs that the task holds; absent if it is 0. memory_bytes includes them.",
}, {
	ID: HeadlineNetworkReceived, Name: "network_received_bytes_total", Unit: Bytes, Kind: Counter,
	File: "skb_received_bytes_total, since skb_start_time_seconds",
	Help: "Bytes of IP packets received, loopback not included.",
	Pitfall: "Only sockets that were made in the task's cgroup count: not those that it inherited. See " +
		"skb_received_bytes_total.",
}, {
	ID: HeadlineNetworkSent, Name: "network_sent_bytes_total", Unit: Bytes, Kind: Counter,
	File: "skb_sent_bytes_total, since skb_start_time_seconds",
	Help: "Bytes of IP packets sent, loopback not included.",
	Pitfall: "Only sockets that were made in the task's cgroup count: not those that it inherited. See " +
		"skb_sent_bytes_total.",
}, {
	ID: HeadlineProcessesAge, Name: "process_rows_age_seconds", Unit: Seconds, Kind: Gauge,
	File: "the time of the sample minus that of tree_processes, CLOCK_MONOTONIC",
	Help: "How long before the sample the processes of the task were read, whose rows it has; absent if it is 0. " +
		"The measurements of the sources tree and io are as old.",
}}}}
