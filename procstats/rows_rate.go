// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// rateRows say what is not in rates of CPU time.
//
//nolint:gochecknoglobals // part of the one table, never written to
var rateRows = [...]Measurement{
	{
		ID: TreeCPULate, Name: "tree_cpu_late_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: TaskScope, Source: SourceTree, Guarantee: Sampled,
		File: "the CPU clocks of processes that are older than the sample before the one that found them, and the growth of tree_cpu_seconds_total",
		Help: "The part of tree_cpu_seconds_total that the sample before had missed: what processes that were found late had used, and what is more than all CPUs " +
			"can have done since. Rates of tree_cpu_seconds_total are without it.",
		Pitfall: "What a process that is found late has used since the sample before is in it too.",
	},
}
