// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// outsideRows say which processes of the task run outside its cgroup: the cgroup's totals have nothing of them.
//
//nolint:gochecknoglobals // part of the one table, never written to
var outsideRows = [...]Measurement{
	{
		ID: TreeOutside, Name: "tree_processes_outside_cgroup",
		Unit: None, Kind: Gauge, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: LowerBound,
		File:    "/proc/PID/cgroup, and children that cgroup.procs does not list",
		Help:    "Live processes of the task that run outside its cgroup in some hierarchy, as far as they are known.",
		Pitfall: "Processes are looked at in turn, so in a large task one that left can be found late.",
	},
	{
		ID: TreeLeftCPU, Name: "tree_processes_left_cpu_cgroup_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: LowerBound,
		File: "/proc/PID/cgroup: cpuacct (v1) or v2",
		Help: "Processes of the task that were seen outside the cgroup that counts its CPU time.",
	},
	{
		ID: TreeLeftMemory, Name: "tree_processes_left_memory_cgroup_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: LowerBound,
		File: "/proc/PID/cgroup: memory (v1) or v2",
		Help: "Processes of the task that were seen outside the cgroup that its memory is charged to.",
	},
	{
		ID: TreeLeftIO, Name: "tree_processes_left_io_cgroup_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: LowerBound,
		File: "/proc/PID/cgroup: blkio (v1) or v2",
		Help: "Processes of the task that were seen outside the cgroup that its I/O is charged to.",
	},
	{
		ID: TreeOutsideCPU, Name: "tree_cpu_outside_cgroup_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: Sampled,
		File:    "the CPU clocks of processes that two successive samples found outside the task's cgroup",
		Help:    "CPU time that processes used while they ran outside the cgroup that counts the task's CPU time, as far as it was seen.",
		Pitfall: "What a process used before it was found outside, and after the last sample of it, is missing. If it was inside again between two samples, the cgroup has part of it too.",
	},
	{
		ID: TreeLeftPressure, Name: "tree_processes_left_pressure_cgroup_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: LowerBound,
		File: "/proc/PID/cgroup: v2",
		Help: "Processes of the task that were seen outside the cgroup that its pressure is read of.",
	},
}

// endRows are what the ends of processes say of those that ran outside.
//
//nolint:gochecknoglobals // part of the one table, never written to
var endRows = [...]Measurement{
	{
		ID: RusageOutside, Name: "rusage_processes_outside_cgroup_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceRusage, Guarantee: LowerBound,
		File: "/proc/PID/cgroup (v2) of a child that has ended, before the executor reaps it",
		Help: "Processes that the executor reaped and that ended outside the task's cgroup, however short they were there.",
		Pitfall: "Only the main process and orphans are reaped by the executor. A process that left groups of version 1 alone is not seen: the " +
			"kernel says of none that has ended in which it was.",
	},
	{
		ID: TreeJoined, Name: "tree_processes_joined_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceTree, Set: OutsideSet, Guarantee: LowerBound,
		File: "cgroup.procs, and the parents of what it lists for the first time",
		Help: "Processes that another program moved into the task's cgroup, as far as they were seen. What they had used before is not the task's.",
	},
	{
		ID: ExitsCPU, Name: "exits_cpu_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceExits, Guarantee: LowerBound,
		File:    "task_struct.se.sum_exec_runtime of each thread that ended in the task's v2 cgroup, by a BPF program on sched_switch",
		Help:    "CPU time of the processes that ended in the task's cgroup of version 2, over their whole lives, however short. Only the record of an ended task has it.",
		Pitfall: "Absent if processes are known to have joined the cgroup: what they used before is in it too.",
	},
}

// exitRows are what the ends of processes in the cgroup say of those that are missing.
//
//nolint:gochecknoglobals // part of the one table, never written to
var exitRows = [...]Measurement{
	{
		ID: ExitsLeft, Name: "exits_processes_left_cgroup_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceExits, Guarantee: LowerBound,
		File:    "sched_process_fork and sched_switch, by BPF programs: processes that were forked in the task's v2 cgroup, and those that ended there",
		Help:    "Processes that began in the task's cgroup of version 2 and did not end there, however short they lived. Only the record of an ended task has it.",
		Pitfall: "A process that joined the cgroup and ended there makes up for one that left.",
	},
}
