// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package record

import (
	"strconv"

	"github.com/tachograph/tacho/procstats"
)

// EndCounters returns, as text by the table's names, how often the task ran into its memory limits and how long it
// waited, from its start to its end: for the event of the end, which is read where the record is not. What was not
// measured is not among them.
func (r *Record) EndCounters() map[string]string {
	counters := map[string]string{}
	for _, id := range []procstats.ID{
		procstats.CgroupMemoryEventsLow, procstats.CgroupMemoryEventsHigh, procstats.CgroupMemoryEventsMax,
		procstats.CgroupMemoryEventsOOM, procstats.CgroupMemoryEventsOOMKill, procstats.CgroupMemoryEventsOOMGroupKill,
		procstats.CgroupMemoryFailcnt,
		procstats.PSICPUSome, procstats.PSICPUFull, procstats.PSIMemorySome, procstats.PSIMemoryFull,
		procstats.PSIIOSome, procstats.PSIIOFull,
	} {
		if v, ok := r.Measurements[id.String()].(float64); ok {
			counters[id.String()] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return counters
}
