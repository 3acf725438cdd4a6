// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import "math"

// ProcStatm is what is used of /proc/PID/statm, proc_pid_statm(5), in pages. All of it is 0 for a process that has
// no memory any more (a zombie).
type ProcStatm struct {
	Size, Resident, Shared int64
}

// ParseProcStatm reads /proc/PID/statm.
func ParseProcStatm(data []byte) (ProcStatm, error) {
	var pages [3]int64
	field, digits := 0, 0
	for _, c := range data {
		switch {
		case c >= '0' && c <= '9':
			// Bytes are counted in int64 too; no page is larger than 64 KiB.
			pages[field] = pages[field]*10 + int64(c-'0')
			if digits++; pages[field] > math.MaxInt64>>16 {
				return ProcStatm{}, ErrFormat
			}
		case c != ' ' || digits == 0:
			return ProcStatm{}, ErrFormat
		case field == len(pages)-1:
			return ProcStatm{Size: pages[0], Resident: pages[1], Shared: pages[2]}, nil
		default:
			field, digits = field+1, 0
		}
	}
	return ProcStatm{}, ErrFormat
}
