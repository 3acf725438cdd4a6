// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// cgroupRows are the files of the task's control group, of version 1 or 2.
//
//nolint:gochecknoglobals // part of the one table, never written to
var cgroupRows = [...]section{{TaskScope, SourceCgroup, []Measurement{{
	ID: CgroupCPUUsage, Name: "cgroup_cpu_usage_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "cpu.stat usage_usec (v2), cpuacct.usage (v1)",
	Help: "CPU time used by every process that ever ran in the task's cgroup, exited ones included.",
}, {
	ID: CgroupCPUUser, Name: "cgroup_cpu_user_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Sampled,
	File:    "cpu.stat user_usec (v2), cpuacct.stat user (v1)",
	Help:    "The part of the cgroup's CPU time spent in user mode.",
	Pitfall: "The kernel estimates the user/system split from ticks; only the total is exact.",
}, {
	ID: CgroupCPUSystem, Name: "cgroup_cpu_system_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Sampled,
	File:    "cpu.stat system_usec (v2), cpuacct.stat system (v1)",
	Help:    "The part of the cgroup's CPU time spent in the kernel.",
	Pitfall: "The kernel estimates the user/system split from ticks; only the total is exact.",
}, {
	ID: CgroupCPUPeriods, Name: "cgroup_cpu_periods_total", Kind: Counter, Guarantee: Exact,
	File:    "cpu.stat nr_periods",
	Help:    "Enforcement periods of the CPU quota in which the task was runnable.",
	Pitfall: "Stays 0 if no quota is set.",
}, {
	ID: CgroupCPUThrottledPeriods, Name: "cgroup_cpu_throttled_periods_total", Kind: Counter, Guarantee: Exact,
	File: "cpu.stat nr_throttled",
	Help: "Enforcement periods in which the task used up the CPU quota of its own cgroup and had to wait.",
}, {
	ID: CgroupCPUThrottled, Name: "cgroup_cpu_throttled_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "cpu.stat throttled_usec (v2), throttled_time (v1)",
	Help: "CPU-seconds for which the quota of the task's own cgroup kept it from running on CPUs it was runnable on.",
	Pitfall: "Counted per CPU: with several busy CPUs it grows faster than the wall clock. Quotas of cgroups above " +
		"count in cgroup_cpu_ancestor_throttled_seconds_total.",
}, {
	ID: CgroupCPUQuota, Name: "cgroup_cpu_quota_cores", Unit: Cores, Kind: Gauge, Guarantee: Exact,
	File:    "cpu.max (v2), cpu.cfs_quota_us / cpu.cfs_period_us (v1)",
	Help:    "The CPU quota of the task's own cgroup, in cores.",
	Pitfall: "Absent if no quota is set. An ancestor's quota can be lower: cgroup_cpu_quota_effective_cores.",
}, {
	ID: CgroupCPUWeight, Name: "cgroup_cpu_weight", Kind: Gauge, Guarantee: Exact,
	File: "cpu.weight (v2)",
	Help: "The cgroup's share of contended CPU, 1 to 10000, 100 by default.",
}, {
	ID: CgroupCPUShares, Name: "cgroup_cpu_shares", Kind: Gauge, Guarantee: Exact,
	File: "cpu.shares (v1)",
	Help: "The cgroup's share of contended CPU on cgroup v1, 1024 by default.",
}, {
	ID: CgroupMemoryCurrent, Name: "cgroup_memory_current_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.current (v2), memory.usage_in_bytes (v1)",
	Help: "Memory charged to the task's cgroup now, page cache and kernel memory included.",
	Pitfall: "Much of it may be page cache that the kernel reclaims on demand; memory_bytes excludes that. The kernel " +
		"charges ahead, up to 64 pages a CPU.",
}, {
	ID: CgroupMemoryPeak, Name: "cgroup_memory_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.peak (v2, since Linux 5.19), memory.max_usage_in_bytes (v1)",
	Help: "The most memory that was ever charged to the task's cgroup, recorded by the kernel.",
	Pitfall: "It includes the page cache. Writing to the file resets it: on v1 for everyone, on v2 (since Linux 6.12) " +
		"only for the writer's descriptor.",
}, {
	ID: CgroupMemoryAnon, Name: "cgroup_memory_anon_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat anon (v2), total_rss (v1)",
	Help: "Anonymous memory: heap, stack, private written pages.",
}, {
	ID: CgroupMemoryFile, Name: "cgroup_memory_file_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "memory.stat file (v2), total_cache (v1)",
	Help:    "Page cache charged to the cgroup, tmpfs and shared memory included.",
	Pitfall: "Shared memory in it cannot be reclaimed without swap.",
}, {
	ID: CgroupMemoryShmem, Name: "cgroup_memory_shmem_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "memory.stat shmem (v2), total_shmem (v1)",
	Help:    "Shared memory and tmpfs pages charged to the cgroup.",
	Pitfall: "Charged once, to the cgroup that touched the page first.",
}, {
	ID: CgroupMemoryFileMapped, Name: "cgroup_memory_file_mapped_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat file_mapped (v2), total_mapped_file (v1)",
	Help: "Page cache that is mapped into processes.",
}, {
	ID: CgroupMemoryActiveFile, Name: "cgroup_memory_active_file_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat active_file (v2), total_active_file (v1)",
	Help: "Memory on the kernel's active list of file pages, used more than once; reclaimable.",
}, {
	ID: CgroupMemoryInactiveFile, Name: "cgroup_memory_inactive_file_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat inactive_file (v2), total_inactive_file (v1)",
	Help: "Memory on the kernel's inactive list of file pages, which it reclaims first: pages of files, and anonymous " +
		"ones that were given up by madvise(MADV_FREE).",
}, {
	ID: CgroupMemorySlabReclaimable, Name: "cgroup_memory_slab_reclaimable_bytes",
	Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat slab_reclaimable (v2)",
	Help: "Kernel slab memory that can be reclaimed, such as dentries and inodes.",
}, {
	ID: CgroupMemorySlabUnreclaimable, Name: "cgroup_memory_slab_unreclaimable_bytes",
	Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat slab_unreclaimable (v2)",
	Help: "Kernel slab memory that cannot be reclaimed.",
}, {
	ID: CgroupMemoryKernel, Name: "cgroup_memory_kernel_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat kernel (v2, since Linux 5.18), memory.kmem.usage_in_bytes (v1)",
	Help: "All kernel memory charged to the cgroup: stacks, page tables, slab, per-CPU data.",
}, {
	ID: CgroupMemorySock, Name: "cgroup_memory_sock_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat sock (v2)",
	Help: "Network buffers charged to the cgroup.",
}, {
	ID: CgroupMemoryFileDirty, Name: "cgroup_memory_file_dirty_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat file_dirty (v2), total_dirty (v1)",
	Help: "Page cache that is not written to storage yet.",
}, {
	ID: CgroupMemoryFileWriteback, Name: "cgroup_memory_file_writeback_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.stat file_writeback (v2), total_writeback (v1)",
	Help: "Page cache that is being written to storage now.",
}, {
	ID: CgroupMemoryPgfault, Name: "cgroup_memory_pgfault_total", Kind: Counter, Guarantee: Exact,
	File: "memory.stat pgfault (v2), total_pgfault (v1)",
	Help: "Page faults, minor and major.",
}, {
	ID: CgroupMemoryPgmajfault, Name: "cgroup_memory_pgmajfault_total", Kind: Counter, Guarantee: Exact,
	File: "memory.stat pgmajfault (v2), total_pgmajfault (v1)",
	Help: "Page faults that had to wait for storage.",
}, {
	ID: CgroupMemoryRefaultAnon, Name: "cgroup_memory_workingset_refault_anon_total", Kind: Counter, Guarantee: Exact,
	File: "memory.stat workingset_refault_anon (v2, since Linux 5.9)",
	Help: "Anonymous pages that were swapped out and soon needed again: a sign of thrashing.",
}, {
	ID: CgroupMemoryRefaultFile, Name: "cgroup_memory_workingset_refault_file_total", Kind: Counter, Guarantee: Exact,
	File: "memory.stat workingset_refault_file (v2, since Linux 5.9)",
	Help: "File pages that were evicted and soon needed again: a sign of thrashing.",
}, {
	ID: CgroupMemorySwapCurrent, Name: "cgroup_memory_swap_current_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "memory.swap.current (v2), memory.stat total_swap (v1)",
	Help:    "Swap space in use by the cgroup.",
	Pitfall: "Absent on a machine without swap accounting, not 0.",
}, {
	ID: CgroupMemorySwapPeak, Name: "cgroup_memory_swap_peak_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File: "memory.swap.peak (v2, since Linux 6.5)",
	Help: "The most swap space the cgroup ever used, recorded by the kernel.",
}, {
	ID: CgroupMemoryMax, Name: "cgroup_memory_max_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "memory.max (v2), memory.limit_in_bytes (v1)",
	Help:    "The hard memory limit of the task's own cgroup.",
	Pitfall: "Absent if no limit is set. An ancestor's limit can be lower.",
}, {
	ID: CgroupMemoryHigh, Name: "cgroup_memory_high_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "memory.high (v2)",
	Help:    "The memory use above which the kernel throttles the cgroup.",
	Pitfall: "Absent if no limit is set.",
}, {
	ID: CgroupMemorySwapMax, Name: "cgroup_memory_swap_max_bytes", Unit: Bytes, Kind: Gauge, Guarantee: Exact,
	File:    "memory.swap.max (v2)",
	Help:    "The swap limit of the task's own cgroup.",
	Pitfall: "Absent if no limit is set.",
}, {
	ID: CgroupMemoryEventsLow, Name: "cgroup_memory_events_low_total", Kind: Counter, Guarantee: Exact,
	File: "memory.events low (v2)",
	Help: "Times the cgroup was reclaimed although it was below its low boundary.",
}, {
	ID: CgroupMemoryEventsHigh, Name: "cgroup_memory_events_high_total", Kind: Counter, Guarantee: Exact,
	File: "memory.events high (v2)",
	Help: "Times processes were throttled because the cgroup was above its high boundary.",
}, {
	ID: CgroupMemoryEventsMax, Name: "cgroup_memory_events_max_total", Kind: Counter, Guarantee: Exact,
	File: "memory.events max (v2)",
	Help: "Times the cgroup was about to go over its hard limit, descendants included (since Linux 5.2).",
}, {
	ID: CgroupMemoryEventsOOM, Name: "cgroup_memory_events_oom_total", Kind: Counter, Guarantee: Exact,
	File: "memory.events oom (v2)",
	Help: "Times an allocation was about to fail at the limit and the OOM killer was considered.",
}, {
	ID: CgroupMemoryEventsOOMKill, Name: "cgroup_memory_events_oom_kill_total", Kind: Counter, Guarantee: Exact,
	File: "memory.events oom_kill (v2), memory.oom_control oom_kill (v1)",
	Help: "Processes of the cgroup killed by any OOM killer.",
	Pitfall: "With memory.oom.group the kernel counts one more than the processes killed: do not use it as their " +
		"number. Cgroup v1, v2 before Linux 5.2 and the mount option memory_localevents do not count kills in cgroups " +
		"that the task has made.",
}, {
	ID: CgroupMemoryEventsOOMGroupKill, Name: "cgroup_memory_events_oom_group_kill_total", Kind: Counter, Guarantee: Exact,
	File: "memory.events oom_group_kill (v2)",
	Help: "Times the whole cgroup was killed by the OOM killer (since Linux 5.17).",
}, {
	ID: CgroupMemoryFailcnt, Name: "cgroup_memory_failcnt_total", Kind: Counter, Guarantee: Exact,
	File: "memory.failcnt (v1)",
	Help: "Times the v1 memory limit was hit; reclaim often helped.",
}, {
	ID: CgroupIORead, Name: "cgroup_io_read_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Exact,
	File:    "io.stat rbytes (v2), all devices without others below them",
	Help:    "Bytes read from block devices on behalf of the cgroup.",
	Pitfall: "Reads served by the page cache and by network file systems are not included.",
}, {
	ID: CgroupIOWrite, Name: "cgroup_io_write_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: Sampled,
	File: "io.stat wbytes (v2), all devices without others below them",
	Help: "Bytes written to block devices on behalf of the cgroup, writeback included.",
	Pitfall: "Buffered writes are counted when they reach the device, which can be after the task has ended, and for " +
		"the cgroup that owns the file's pages: what the task changes of other pages, or of a device's, is not among " +
		"them, and what others change of its own is.",
}, {
	ID: CgroupIOReadOperations, Name: "cgroup_io_read_operations_total", Kind: Counter, Guarantee: Exact,
	File: "io.stat rios (v2), all devices without others below them",
	Help: "Read requests to block devices.",
}, {
	ID: CgroupIOWriteOperations, Name: "cgroup_io_write_operations_total", Kind: Counter, Guarantee: Sampled,
	File: "io.stat wios (v2), all devices without others below them",
	Help: "Write requests to block devices.",
}, {
	ID: CgroupBlkioRead, Name: "cgroup_blkio_read_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "blkio.throttle.io_service_bytes Read (v1)",
	Help: "Bytes read from block devices by processes of the v1 cgroup.",
}, {
	ID: CgroupBlkioWrite, Name: "cgroup_blkio_write_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "blkio.throttle.io_service_bytes Write (v1)",
	Help: "Bytes written to block devices by processes of the v1 cgroup.",
	Pitfall: "cgroup v1 misses buffered writeback: only direct and synchronous writes are counted. A process that calls " +
		"sync(2) is charged for the file system's metadata, also for what others have changed.",
}, {
	ID: CgroupBlkioReadOperations, Name: "cgroup_blkio_read_operations_total", Kind: Counter, Guarantee: LowerBound,
	File: "blkio.throttle.io_serviced Read (v1)",
	Help: "Read requests to block devices by processes of the v1 cgroup.",
}, {
	ID: CgroupBlkioWriteOperations, Name: "cgroup_blkio_write_operations_total", Kind: Counter, Guarantee: LowerBound,
	File:    "blkio.throttle.io_serviced Write (v1)",
	Help:    "Write requests to block devices by processes of the v1 cgroup.",
	Pitfall: "cgroup v1 misses buffered writeback.",
}, {
	ID: CgroupPidsCurrent, Name: "cgroup_pids_current", Kind: Gauge, Guarantee: Exact,
	File:    "pids.current",
	Help:    "Processes and threads in the cgroup now.",
	Pitfall: "The kernel counts threads here, and zombies until they are reaped.",
}, {
	ID: CgroupPidsPeak, Name: "cgroup_pids_peak", Kind: Gauge, Guarantee: Exact,
	File: "pids.peak (v2, since Linux 6.1)",
	Help: "The largest number of processes and threads that existed at once.",
}, {
	ID: CgroupPidsMax, Name: "cgroup_pids_max", Kind: Gauge, Guarantee: Exact,
	File:    "pids.max",
	Help:    "The limit on processes and threads.",
	Pitfall: "Absent if no limit is set.",
}, {
	ID: CgroupPidsEventsMax, Name: "cgroup_pids_events_max_total", Kind: Counter, Guarantee: Exact,
	File: "pids.events max",
	Help: "Forks that failed because of the limit on processes.",
	Pitfall: "Linux before 6.11, cgroup v1 and the mount option pids_localevents do not count forks in cgroups that " +
		"the task has made.",
}, {
	// The files of the control groups above the task's.
	ID: CgroupCPUQuotaEffective, Name: "cgroup_cpu_quota_effective_cores", Unit: Cores, Kind: Gauge, Guarantee: UpperBound,
	File: "cpu.max (v2), cpu.cfs_quota_us / cpu.cfs_period_us (v1) of the task's cgroup and of those above it",
	Help: "The lowest CPU quota of the task's cgroup and of the visible cgroups above it, in cores.",
	Pitfall: "An ancestor's quota is shared by all tasks below it. Absent if no quota is set; a cgroup namespace can " +
		"hide a lower one.",
}, {
	ID: CgroupCPUAncestorThrottledPeriods, Name: "cgroup_cpu_ancestor_throttled_periods_total",
	Kind: Counter, Guarantee: UpperBound,
	File:    "cpu.stat nr_throttled of the cgroups above the task's, since its start",
	Help:    "Enforcement periods in which a visible cgroup above the task's used up its CPU quota.",
	Pitfall: "Other tasks below the same ancestor cause and share them.",
}, {
	ID: CgroupCPUAncestorThrottled, Name: "cgroup_cpu_ancestor_throttled_seconds_total",
	Unit: Seconds, Kind: Counter, Guarantee: UpperBound,
	File: "cpu.stat throttled_usec (v2), throttled_time (v1) of the cgroups above the task's, since its start",
	Help: "CPU-seconds for which quotas of visible cgroups above the task's kept all that is below them from running.",
	Pitfall: "Counted per CPU, and for all tasks below the ancestor. The task's own quota is in " +
		"cgroup_cpu_throttled_seconds_total.",
}, {
	// The files of the group that a task without one of its own runs in.
	ID: CgroupCPUInheritedQuota, Name: "cgroup_cpu_inherited_quota_cores", Unit: Cores, Kind: Gauge, Guarantee: UpperBound,
	File: "cpu.max (v2), cpu.cfs_quota_us / cpu.cfs_period_us (v1) of the executor's cgroup and of those above it",
	Help: "The lowest CPU quota of the cgroup that a task without one of its own inherits from its executor, and of " +
		"the visible ones above.",
	Pitfall: "Shared by all that runs there. Absent if no quota is set, and for a task with a CPU cgroup of its own.",
}, {
	ID: CgroupCPUInheritedThrottled, Name: "cgroup_cpu_inherited_throttled_seconds_total",
	Unit: Seconds, Kind: Counter, Guarantee: UpperBound,
	File: "cpu.stat throttled_usec (v2), throttled_time (v1) of the executor's cgroup and of those above it, since " +
		"the task's start",
	Help: "CPU-seconds for which quotas of the cgroup that a task without one of its own inherits from its " +
		"executor, and of the visible ones above, kept all that is below them from running.",
	Pitfall: "Counted per CPU, and for all that runs there. A process that moves to another cgroup is held back by " +
		"other quotas.",
}}}, {TaskScope, SourcePSI, []Measurement{{
	// The pressure files of the task's control group.
	ID: PSICPUSome, Name: "psi_cpu_some_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "cpu.pressure some total",
	Help: "Time in which at least one process of the task waited for a CPU.",
	Pitfall: "The kernel averages over CPUs, weighted by the time in which the task keeps each from being idle: one " +
		"process that waits while others run elsewhere counts in part.",
}, {
	ID: PSICPUFull, Name: "psi_cpu_full_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "cpu.pressure full total",
	Help: "Time in which every process of the task that was not idle waited for a CPU.",
	Pitfall: "Since Linux 5.13, for cgroups; a cgroup is fully stalled on CPU when its quota or other cgroups leave it " +
		"no CPU time.",
}, {
	ID: PSIMemorySome, Name: "psi_memory_some_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "memory.pressure some total",
	Help: "Time in which at least one process of the task waited for memory (reclaim, refaults, swap).",
	Pitfall: "The kernel averages over CPUs, weighted by the time in which the task keeps each from being idle: one " +
		"process that waits while others run elsewhere counts in part.",
}, {
	ID: PSIMemoryFull, Name: "psi_memory_full_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File:    "memory.pressure full total",
	Help:    "Time in which every process of the task that was not idle waited for memory (reclaim, refaults, swap).",
	Pitfall: "The whole task was stalled in that time; psi_*_some_seconds_total includes it.",
}, {
	ID: PSIIOSome, Name: "psi_io_some_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File: "io.pressure some total",
	Help: "Time in which at least one process of the task waited for block I/O.",
	Pitfall: "The kernel averages over CPUs, weighted by the time in which the task keeps each from being idle: one " +
		"process that waits while others run elsewhere counts in part.",
}, {
	ID: PSIIOFull, Name: "psi_io_full_seconds_total", Unit: Seconds, Kind: Counter, Guarantee: Exact,
	File:    "io.pressure full total",
	Help:    "Time in which every process of the task that was not idle waited for block I/O.",
	Pitfall: "The whole task was stalled in that time; psi_*_some_seconds_total includes it.",
}}}, {TaskScope, SourceSkb, []Measurement{{
	// The packets of the task's cgroup. They are lower bounds: what has divided or merged a packet has not, and the
	// hooks are not run for each packet of a connection that is closed.
	ID: SkbReceived, Name: "skb_received_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "__sk_buff.len at the ingress hook of the task's cgroup v2 (BPF_PROG_TYPE_CGROUP_SKB)",
	Help: "Bytes of IP packets, headers included, that sockets of the task received on all interfaces but loopback.",
	Pitfall: "A socket belongs to the cgroup in which it was made: one that the task inherited does not count, and one " +
		"that it passed on does. Counted although it is dropped behind the hook: a packet that finds the buffer of its " +
		"socket full. Not counted: AF_UNIX, AF_PACKET, packets of TCP connections that are closed already, and the " +
		"headers of TCP packets that the kernel has merged with others (GRO).",
}, {
	ID: SkbSent, Name: "skb_sent_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "__sk_buff.len at the egress hook of the task's cgroup v2 (BPF_PROG_TYPE_CGROUP_SKB)",
	Help: "Bytes of IP packets, headers included, that sockets of the task handed to all interfaces but loopback.",
	Pitfall: "Counted before the interface divides large TCP packets (segmentation offload): the headers of the " +
		"further segments are missing. Counted although it is dropped behind the hook: a packet to an address that no " +
		"neighbour has, or that finds a queue full. See also skb_received_bytes_total.",
}, {
	ID: SkbReceivedPackets, Name: "skb_received_packets_total", Kind: Counter, Guarantee: LowerBound,
	File: "runs of the program at the ingress hook of the task's cgroup v2",
	Help: "IP packets that sockets of the task received on all interfaces but loopback.",
	Pitfall: "Several TCP packets that the kernel has merged (GRO), and the fragments of a datagram, count as one. See " +
		"also skb_received_bytes_total.",
}, {
	ID: SkbSentPackets, Name: "skb_sent_packets_total", Kind: Counter, Guarantee: LowerBound,
	File: "runs of the program at the egress hook of the task's cgroup v2",
	Help: "IP packets that sockets of the task handed to all interfaces but loopback.",
	Pitfall: "A TCP packet that the interface divides (segmentation offload, up to 64 KiB), and a datagram that is " +
		"fragmented, count as one. See also skb_sent_bytes_total.",
}, {
	ID: SkbLoopbackReceived, Name: "skb_loopback_received_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File:    "__sk_buff.len at the ingress hook of the task's cgroup v2, of the interface with index 1",
	Help:    "Bytes of IP packets that sockets of the task received on the loopback interface.",
	Pitfall: "If both ends are the task's, the same bytes are in skb_loopback_sent_bytes_total.",
}, {
	ID: SkbLoopbackSent, Name: "skb_loopback_sent_bytes_total", Unit: Bytes, Kind: Counter, Guarantee: LowerBound,
	File: "__sk_buff.len at the egress hook of the task's cgroup v2, of the interface with index 1",
	Help: "Bytes of IP packets that sockets of the task sent on the loopback interface.",
	Pitfall: "A large TCP packet is counted before the kernel divides it: without the headers of the further ones, " +
		"which skb_loopback_received_bytes_total has.",
}, {
	ID: SkbLoopbackReceivedPackets, Name: "skb_loopback_received_packets_total", Kind: Counter, Guarantee: LowerBound,
	File: "runs of the program at the ingress hook of the task's cgroup v2, for the interface with index 1",
	Help: "IP packets that sockets of the task received on the loopback interface.",
}, {
	ID: SkbLoopbackSentPackets, Name: "skb_loopback_sent_packets_total", Kind: Counter, Guarantee: LowerBound,
	File: "runs of the program at the egress hook of the task's cgroup v2, for the interface with index 1",
	Help: "IP packets that sockets of the task sent on the loopback interface.",
	Pitfall: "A large TCP packet is counted before the kernel divides it, into two packets as a rule. See also " +
		"skb_loopback_received_packets_total.",
}, {
	ID: SkbStartTime, Name: "skb_start_time_seconds", Unit: Time, Kind: Gauge, Guarantee: Exact,
	File: "the clock of the process that counts",
	Help: "Since when packets are counted without a gap, in seconds since 1970; absent if that is since the start " +
		"of the task.",
	Pitfall: "After a restart of the agent the counters go on, and packets in between are missing.",
}, {
	ID: SkbUncountedSockets, Name: "skb_uncounted_sockets_total", Kind: Counter, Guarantee: LowerBound,
	File: "getsockopt(2) SO_DOMAIN of the descriptors that the task was started with; a probe of security_file_receive, " +
		"else the tracepoints sock_send_length and sock_recv_length; the descriptors of its processes when they end; the " +
		"tracepoint cap_capable, else a probe of security_socket_create; /proc/net/packet",
	Help: "What can have packets that are not counted: sockets that the task was started with, was handed or used, or " +
		"that its processes ended with, if they are from outside or of AF_PACKET, checks for CAP_NET_RAW that they passed, " +
		"and AF_PACKET sockets that were opened in the network namespace of what reads it since, also by other processes.",
	Pitfall: "One socket can count twice, and of those that were used one does. Without probes AF_PACKET is not seen in " +
		"other network namespaces before Linux 6.14 if it was closed before its process ended, nor before Linux 6.1.",
}}}}
