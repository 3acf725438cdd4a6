// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// runQueueRows are what the scheduler counts of each live process besides its CPU time.
//
//nolint:gochecknoglobals // part of the one table, never written to
var runQueueRows = [...]Measurement{
	{
		ID: ProcessRunDelay, Name: "process_run_delay_seconds_total",
		Unit: Seconds, Kind: Counter, Scope: ProcessScope, Source: SourceTree, Guarantee: LowerBound,
		File: "/proc/PID/task/TID/schedstat run_delay",
		Help: "Time for which threads of this process could run and waited for a CPU, added up over its threads.",
		Pitfall: "Includes the time for which a CPU quota throttled them. A wait counts once it has ended. Of a thread that has ended, what it " +
			"waited after it was last read is missing. Not read of processes with more than 128 threads.",
	},
	{
		ID: ProcessVoluntarySwitches, Name: "process_voluntary_switches_total",
		Unit: None, Kind: Counter, Scope: ProcessScope, Source: SourceTree, Guarantee: LowerBound,
		File:    "/proc/PID/task/TID/status voluntary_ctxt_switches",
		Help:    "How often threads of this process gave up their CPU to wait for something.",
		Pitfall: "Of a thread that has ended, what came after it was last read is missing. Not read of processes with more than 128 threads.",
	},
	{
		ID: ProcessInvoluntarySwitches, Name: "process_involuntary_switches_total",
		Unit: None, Kind: Counter, Scope: ProcessScope, Source: SourceTree, Guarantee: LowerBound,
		File:    "/proc/PID/task/TID/status nonvoluntary_ctxt_switches",
		Help:    "How often the CPU was taken away from threads of this process that could have used it.",
		Pitfall: "Of a thread that has ended, what came after it was last read is missing. Not read of processes with more than 128 threads.",
	},
}
