// Copyright (c) The Tachograph Authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"bytes"
	"math"
)

// SmapsRollup is what is used of /proc/PID/smaps_rollup (since Linux 4.14), in bytes.
type SmapsRollup struct {
	PSS, SwapPSS int64
}

// ParseSmapsRollup requires both values: a file that lacks one is not what it seems.
func ParseSmapsRollup(data []byte) (SmapsRollup, error) {
	var s SmapsRollup
	var havePSS, haveSwap bool
	for !havePSS || !haveSwap {
		line, rest, ok := cutLine(data)
		if !ok {
			return SmapsRollup{}, ErrFormat
		}
		data = rest
		var valid bool
		switch {
		case !havePSS && bytes.HasPrefix(line, []byte("Pss:")):
			s.PSS, valid = parseKiB(line[len("Pss:"):])
			havePSS = true
		case !haveSwap && bytes.HasPrefix(line, []byte("SwapPss:")):
			s.SwapPSS, valid = parseKiB(line[len("SwapPss:"):])
			haveSwap = true
		default:
			continue
		}
		if !valid {
			return SmapsRollup{}, ErrFormat
		}
	}
	return s, nil
}

// parseKiB reads "   1234 kB", where the kernel means KiB.
func parseKiB(value []byte) (n int64, ok bool) {
	digits, ok := bytes.CutSuffix(bytes.TrimLeft(value, " "), []byte(" kB"))
	if !ok {
		return 0, false
	}
	kib, ok := parseKernelUint(digits)
	if !ok || kib > math.MaxInt64>>10 {
		return 0, false
	}
	return int64(kib) << 10, true
}
