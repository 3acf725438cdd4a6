// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"time"
)

// ProcSchedstat is /proc/PID/task/TID/schedstat: of one thread. Its zero value is what the kernel writes if it does not count.
type ProcSchedstat struct {
	CPU      time.Duration
	RunDelay time.Duration // it could run and waited for a CPU
	Slices   uint64        // how often it got one
}

// ParseProcSchedstat reads the three numbers of the file.
func ParseProcSchedstat(data []byte) (ProcSchedstat, error) {
	var numbers [3]uint64
	line, _, whole := cutLine(data)
	for i := range numbers {
		var word []byte
		var ok bool
		word, line, _ = bytes.Cut(line, []byte{' '})
		if numbers[i], ok = parseKernelUint(word); !ok || !whole {
			return ProcSchedstat{}, ErrFormat
		}
	}
	//nolint:gosec // at most math.MaxInt64
	return ProcSchedstat{CPU: time.Duration(numbers[0]), RunDelay: time.Duration(numbers[1]), Slices: numbers[2]}, nil
}
