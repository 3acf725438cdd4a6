// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"math"
)

// cutLine splits off the first line. ok is false at the end, and for a last line without its newline: every kernel
// file ends in one, so such a line is cut short and its number cannot be trusted.
func cutLine(data []byte) (line, rest []byte, ok bool) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return nil, nil, false
	}
	line = data[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	return line, data[end+1:], true
}

// cutAt splits at the first separator, as bytes.Cut does, which looks for whole texts and takes twice as long.
func cutAt(data []byte, separator byte) (before, after []byte, found bool) {
	if i := bytes.IndexByte(data, separator); i >= 0 {
		return data[:i], data[i+1:], true
	}
	return data, nil, false
}

// parseKernelUint reads a decimal number as the kernel prints them: digits only, at most the largest int64. Larger
// ones are counters that ran backwards, or junk.
func parseKernelUint(b []byte) (n uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' || n > math.MaxInt64/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, n <= math.MaxInt64
}
