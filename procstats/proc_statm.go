// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package procstats

import (
	"bytes"
	"math"
)

// procStatm is what is used of /proc/PID/statm, proc_pid_statm(5), in pages. All of it is 0 for a process that has
// no memory any more (a zombie).
type procStatm struct {
	size, resident, shared int64
}

func parseProcStatm(data []byte) (procStatm, error) {
	var pages [3]int64
	for i := range pages {
		field, rest, found := bytes.Cut(data, []byte{' '})
		n, ok := parseKernelUint(field)
		// Bytes are counted in int64 too; no page is larger than 64 KiB.
		if !found || !ok || n > math.MaxInt64>>16 {
			return procStatm{}, errFormat
		}
		pages[i], data = int64(n), rest
	}
	return procStatm{size: pages[0], resident: pages[1], shared: pages[2]}, nil
}
