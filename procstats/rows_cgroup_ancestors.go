// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// ancestorRows are the files of the control groups above the task's.
//
//nolint:gochecknoglobals // part of the one table, never written to
var ancestorRows = [...]Measurement{
	{
		ID: CgroupCPUQuotaEffective, Name: "cgroup_cpu_quota_effective_cores",
		Unit: Cores, Kind: Gauge, Scope: TaskScope, Source: SourceCgroup, Guarantee: UpperBound,
		File:    "cpu.max (v2), cpu.cfs_quota_us / cpu.cfs_period_us (v1) of the task's cgroup and of those above it",
		Help:    "The lowest CPU quota of the task's cgroup and of the visible cgroups above it, in cores.",
		Pitfall: "An ancestor's quota is shared by all tasks below it. Absent if no quota is set; a cgroup namespace can hide a lower one.",
	},
	{
		ID: CgroupCPUAncestorThrottledPeriods, Name: "cgroup_cpu_ancestor_throttled_periods_total",
		Unit: None, Kind: Counter, Scope: TaskScope, Source: SourceCgroup, Guarantee: UpperBound,
		File:    "cpu.stat nr_throttled of the cgroups above the task's, since its start",
		Help:    "Enforcement periods in which a visible cgroup above the task's used up its CPU quota.",
		Pitfall: "Other tasks below the same ancestor cause and share them.",
	},
	{
		ID: CgroupCPUAncestorThrottled, Name: "cgroup_cpu_ancestor_throttled_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceCgroup, Guarantee: UpperBound,
		File:    "cpu.stat throttled_usec (v2), throttled_time (v1) of the cgroups above the task's, since its start",
		Help:    "CPU-seconds for which quotas of visible cgroups above the task's kept all that is below them from running.",
		Pitfall: "Counted per CPU, and for all tasks below the ancestor. The task's own quota is in cgroup_cpu_throttled_seconds_total.",
	},
}

// inheritedRows are the files of the group that a task without one of its own runs in.
//
//nolint:gochecknoglobals // part of the one table, never written to
var inheritedRows = [...]Measurement{
	{
		ID: CgroupCPUInheritedQuota, Name: "cgroup_cpu_inherited_quota_cores",
		Unit: Cores, Kind: Gauge, Scope: TaskScope, Source: SourceCgroup, Guarantee: UpperBound,
		File:    "cpu.max (v2), cpu.cfs_quota_us / cpu.cfs_period_us (v1) of the executor's cgroup and of those above it",
		Help:    "The lowest CPU quota of the cgroup that a task without one of its own inherits from its executor, and of the visible ones above.",
		Pitfall: "Shared by all that runs there. Absent if no quota is set, and for a task with a CPU cgroup of its own.",
	},
	{
		ID: CgroupCPUInheritedThrottled, Name: "cgroup_cpu_inherited_throttled_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceCgroup, Guarantee: UpperBound,
		File:    "cpu.stat throttled_usec (v2), throttled_time (v1) of the executor's cgroup and of those above it, since the task's start",
		Help:    "CPU-seconds for which quotas of the cgroup that a task without one of its own inherits from its executor, and of the visible ones above, kept all that is below them from running.",
		Pitfall: "Counted per CPU, and for all that runs there. A process that moves to another cgroup is held back by other quotas.",
	},
}
