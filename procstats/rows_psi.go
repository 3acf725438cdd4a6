// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// psiRows are the pressure files of the task's control group.
//
//nolint:gochecknoglobals // part of the one table, never written to
var psiRows = [...]Measurement{
	{
		ID: PSICPUSome, Name: "psi_cpu_some_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePSI, Guarantee: Exact,
		File:    "cpu.pressure some total",
		Help:    "Time in which at least one process of the task waited for a CPU.",
		Pitfall: "The kernel averages over CPUs, weighted by the time in which the task keeps each from being idle: one process that waits while others run elsewhere counts in part.",
	},
	{
		ID: PSICPUFull, Name: "psi_cpu_full_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePSI, Guarantee: Exact,
		File:    "cpu.pressure full total",
		Help:    "Time in which every process of the task that was not idle waited for a CPU.",
		Pitfall: "Since Linux 5.13, for cgroups; a cgroup is fully stalled on CPU when its quota or other cgroups leave it no CPU time.",
	},
	{
		ID: PSIMemorySome, Name: "psi_memory_some_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePSI, Guarantee: Exact,
		File:    "memory.pressure some total",
		Help:    "Time in which at least one process of the task waited for memory (reclaim, refaults, swap).",
		Pitfall: "The kernel averages over CPUs, weighted by the time in which the task keeps each from being idle: one process that waits while others run elsewhere counts in part.",
	},
	{
		ID: PSIMemoryFull, Name: "psi_memory_full_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePSI, Guarantee: Exact,
		File:    "memory.pressure full total",
		Help:    "Time in which every process of the task that was not idle waited for memory (reclaim, refaults, swap).",
		Pitfall: "The whole task was stalled in that time; psi_*_some_seconds_total includes it.",
	},
	{
		ID: PSIIOSome, Name: "psi_io_some_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePSI, Guarantee: Exact,
		File:    "io.pressure some total",
		Help:    "Time in which at least one process of the task waited for block I/O.",
		Pitfall: "The kernel averages over CPUs, weighted by the time in which the task keeps each from being idle: one process that waits while others run elsewhere counts in part.",
	},
	{
		ID: PSIIOFull, Name: "psi_io_full_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourcePSI, Guarantee: Exact,
		File:    "io.pressure full total",
		Help:    "Time in which every process of the task that was not idle waited for block I/O.",
		Pitfall: "The whole task was stalled in that time; psi_*_some_seconds_total includes it.",
	},
}
