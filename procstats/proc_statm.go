// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import "math"

// procStatm is what is used of /proc/PID/statm, proc_pid_statm(5), in pages. All of it is 0 for a process that has
// no memory any more (a zombie).
type procStatm struct {
	size, resident, shared int64
}

func parseProcStatm(data []byte) (procStatm, error) {
	var pages [3]int64
	field, digits := 0, 0
	for _, c := range data {
		switch {
		case c >= '0' && c <= '9':
			// Bytes are counted in int64 too; no page is larger than 64 KiB.
			pages[field] = pages[field]*10 + int64(c-'0')
			if digits++; pages[field] > math.MaxInt64>>16 {
				return procStatm{}, errFormat
			}
		case c != ' ' || digits == 0:
			return procStatm{}, errFormat
		case field == len(pages)-1:
			return procStatm{size: pages[0], resident: pages[1], shared: pages[2]}, nil
		default:
			field, digits = field+1, 0
		}
	}
	return procStatm{}, errFormat
}
