// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

// ioRows are what is worked out from several counters of I/O.
//
//nolint:gochecknoglobals // part of the one table, never written to
var ioRows = [...]Measurement{
	{
		ID: TreeIOStored, Name: "tree_io_stored_bytes_total",
		Unit: Bytes, Kind: Counter, Scope: TaskScope, Source: SourceIO, Guarantee: LowerBound,
		File:    "/proc/PID/io write_bytes - cancelled_write_bytes, of live and reaped processes, - /proc/meminfo Dirty, Writeback, WritebackTmp and 125 pages a CPU",
		Help:    "Bytes that the processes wrote and that have reached storage at least: all that the machine has yet to write may be theirs.",
		Pitfall: "Far too low while other tasks have much to write. What someone outside the task deletes before it is written counts as if it had reached storage.",
	},
}
