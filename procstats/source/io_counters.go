// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package source

import (
	"github.com/tachograph/tacho/procstats"
	"github.com/tachograph/tacho/procstats/kernel"
)

// ioCounters are the counters of a ProcIO, in the order of ioTreeIDs and ioProcessIDs.
type ioCounters [5]int64

//nolint:gochecknoglobals // constant
var (
	ioTreeIDs    = [...]procstats.ID{procstats.TreeIORchar, procstats.TreeIOWchar, procstats.TreeIORead, procstats.TreeIOWrite, procstats.TreeIOCancelledWrite}
	ioProcessIDs = [...]procstats.ID{procstats.ProcessIORchar, procstats.ProcessIOWchar, procstats.ProcessIORead, procstats.ProcessIOWrite, procstats.ProcessIOCancelledWrite}
)

func countersOf(io kernel.ProcIO) ioCounters {
	return ioCounters{io.Rchar, io.Wchar, io.ReadBytes, io.WriteBytes, io.CancelledWriteBytes}
}
